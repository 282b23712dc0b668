"""Settings of the daemon: `settings` says what there is, `load` reads it."""

from scheduler.config.load import load_settings
from scheduler.config.settings import (
    EngineSettings,
    HttpSettings,
    KubernetesSettings,
    LocalSettings,
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
    "PolicyName",
    "PolicySettings",
    "RetentionSettings",
    "Settings",
    "TracingSettings",
    "WebhookSettings",
    "load_settings",
]
