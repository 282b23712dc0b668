"""What accounts hold and what they came to, as rows and back."""

from typing import Any

from sqlalchemy import Row

from scheduler.model.account import AccountKey, Charge, Holding
from scheduler.model.queue_usage import QueueUsage

Values = dict[str, Any]


def holding_values(holding: Holding, revision: int) -> Values:
    return {
        **_key_values(holding.key),
        "at": holding.at,
        "held_slots": holding.slots,
        "lent_slots": holding.lent,
        "revision": revision,
    }


def holding_from_row(row: Row[Any]) -> Holding:
    return Holding(AccountKey(row.queue, row.user_name, row.gpu_type), row.at, row.held_slots, row.lent_slots)


def charge_values(charge: Charge) -> Values:
    return {
        "hour": charge.hour,
        **_key_values(charge.key),
        "held_seconds": charge.held,
        "lent_seconds": charge.lent,
        "lost_seconds": charge.lost,
    }


def charge_from_row(row: Row[Any]) -> Charge:
    key = AccountKey(row.queue, row.user_name, row.gpu_type)
    return Charge(row.hour, key, row.held_seconds, row.lent_seconds, row.lost_seconds)


def queue_usage_values(account: str, usage: QueueUsage, revision: int) -> Values:
    return {
        "account": account,
        "at": usage.at,
        "slot_seconds": usage.slot_seconds,
        "held_slots": usage.slots,
        "revision": revision,
    }


def queue_usage_from_row(row: Row[Any]) -> tuple[str, QueueUsage]:
    return row.account, QueueUsage(row.slot_seconds, row.at, row.held_slots)


def _key_values(key: AccountKey) -> Values:
    return {"queue": key.queue, "user_name": key.user, "gpu_type": key.gpu_type}
