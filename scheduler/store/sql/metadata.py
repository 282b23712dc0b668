"""The one MetaData of all tables, and what their keys and constraints have in common."""

from collections.abc import Iterable
from enum import StrEnum

from sqlalchemy import BigInteger, CheckConstraint, Integer, MetaData

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

#: SQLite makes only a column of exactly this type the row's own address.
Key = BigInteger().with_variant(Integer(), "sqlite")


def listed(members: Iterable[StrEnum]) -> str:
    """The values of these members as what stands between the parentheses of IN."""
    return ", ".join(f"'{member.value}'" for member in sorted(members))


def one_of(column: str, members: Iterable[StrEnum]) -> CheckConstraint:
    """The constraint, named for the column, that it holds the value of one of these members."""
    return CheckConstraint(f"{column} IN ({listed(members)})", name=column)
