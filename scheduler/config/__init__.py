"""Settings of the daemon: `settings` and `cluster_settings` say what there is, `load` reads them."""

from scheduler.config.cluster_settings import KubernetesSettings, LocalSettings, SystemSettings
from scheduler.config.http_settings import HttpSettings
from scheduler.config.load import load_settings
from scheduler.config.oidc_settings import OidcSettings
from scheduler.config.settings import (
    EngineSettings,
    LogSettings,
    PolicyName,
    PolicySettings,
    RetentionSettings,
    Settings,
    TracingSettings,
    WebhookSettings,
)

__all__ = [
    "EngineSettings",
    "HttpSettings",
    "KubernetesSettings",
    "LocalSettings",
    "LogSettings",
    "OidcSettings",
    "PolicyName",
    "PolicySettings",
    "RetentionSettings",
    "Settings",
    "SystemSettings",
    "TracingSettings",
    "WebhookSettings",
    "load_settings",
]
