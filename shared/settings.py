"""All settings, and the only place that reads the environment (prefix ``HOTSLOT_``).

Each setting of type ``SecretStr`` can be given in a file too: ``HOTSLOT_NAME_FILE`` names it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from difflib import get_close_matches
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from shared.errors import Misconfigured
from shared.secret_settings import SUFFIX, from_files

PREFIX = "HOTSLOT_"

Network = IPv4Network | IPv6Network

_YES = ("1", "ON", "YES", "TRUE")


class Settings(BaseSettings):
    """Settings of every process. Durations carry their unit in the name."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore", frozen=True)

    redis_url: SecretStr = SecretStr("redis://127.0.0.1:6379/0")
    redis_require_durable: bool = True
    """Refuse a server without ``noeviction`` and AOF."""

    catalogue: Path | None = None
    data_folder: Path = Path.home() / ".local" / "share" / "hotslot"
    """Spool, embedded server, folder store."""
    cache_folder: Path = Path.home() / ".cache" / "hotslot"
    """Downloaded adapters; safe to delete."""
    adapter_folder: Path | None = None
    """Root of ``file:`` adapter sources; none are taken without it."""
    adapter_largest_bytes: int = Field(default=4 << 30, ge=1)
    """Larger adapter files are refused, wherever they come from."""
    adapter_allowed_networks: Annotated[tuple[Network, ...], NoDecode] = ()
    """Private networks that adapter URLs may reach all the same, also over http://: CIDR, separated by commas."""
    adapter_fetch_budget_s: float = Field(default=600.0, gt=0)
    """A download that takes longer fails its job; the next one goes on where it stopped."""
    adapter_cache_folder: Path | None = None
    """Where workers keep fetched adapters. Default: ``adapter-cache`` below the cache folder."""
    adapter_cache_bytes: int = Field(default=50 << 30, ge=0)
    """So much of them is kept; the least recently used go first."""
    adapter_cache_spare_bytes: int = Field(default=1 << 30, ge=0)
    """So much of the disk is left free."""
    adapter_memory_bytes: int = Field(default=4 << 30, ge=0)
    """So much of converted adapters each worker keeps in memory; the longest unused go first, pinned ones never."""
    prefetch_groups: int = Field(default=4, ge=0)
    """The adapters of so many groups of jobs are brought into memory while earlier jobs are drawn; 0: of none."""

    hf_endpoint: str = Field(default_factory=lambda: _of_the_hub("HF_ENDPOINT") or "https://huggingface.co")
    """Hub of ``hf:`` adapter sources; ``HF_ENDPOINT`` if not set. It may be a private address."""
    hf_token: SecretStr | None = Field(default_factory=lambda: _secret_or_none(_of_the_hub("HF_TOKEN")))
    """Token for the hub; ``HF_TOKEN`` if not set. Every caller can use what it may read."""
    hf_offline: bool = Field(default_factory=lambda: _of_the_hub("HF_HUB_OFFLINE").upper() in _YES)
    """Never ask the hub; what its own cache on this machine holds is taken. ``HF_HUB_OFFLINE`` if not set."""

    adapter_s3_buckets: Annotated[tuple[str, ...], NoDecode] = ()
    """Buckets that ``s3://`` adapter sources may name, separated by commas; none are taken without it."""
    adapter_s3_endpoint_url: str | None = None
    """Default for this and the next three: those of the image store."""
    adapter_s3_region: str | None = None
    adapter_s3_access_key_id: SecretStr | None = None
    adapter_s3_secret_access_key: SecretStr | None = None

    public_url: str = "http://127.0.0.1:8000"
    """How callers reach the API; links in jobs and webhooks start with it."""
    signing_key: SecretStr | None = None
    """Signs the folder store's download links. Without it each API process draws its own."""

    receipt_key: SecretStr | None = None
    """Signs receipts: 32 random bytes in base64. Without it each worker keeps its own below its data folder."""

    store: Literal["folder", "s3"] = "folder"
    store_folder: Path | None = None
    """Default: ``images`` below the data folder."""
    s3_bucket: str = "hotslot"
    s3_endpoint_url: str | None = None
    s3_public_endpoint_url: str | None = None
    """Endpoint that callers reach, where it differs from the internal one."""
    s3_region: str = "us-east-1"
    s3_addressing_style: Literal["path", "virtual"] = "path"
    s3_access_key_id: SecretStr | None = None
    s3_secret_access_key: SecretStr | None = None
    link_lifetime_s: int = Field(default=3600, ge=1, le=7 * 24 * 3600)

    webhook_secret: SecretStr | None = None
    """Standard Webhooks secret, ``whsec_`` and base64."""
    webhook_allowed_networks: Annotated[tuple[Network, ...], NoDecode] = ()
    """Private networks that webhooks may reach all the same: CIDR, separated by commas."""
    webhook_timeout_s: float = 10.0
    webhook_max_attempts: int = 12

    retention_s: int = Field(default=7 * 24 * 3600, ge=1)
    lease_ms: int = Field(default=10_000, ge=500)
    max_lost_attempts: int = Field(default=3, ge=1)
    job_time_limit_s: float = 3600.0
    """A job that holds the child longer is stuck: the child is killed, the job is run again."""
    stop_grace_s: float = 20.0
    """After SIGTERM a job that cannot end within this time is handed back."""
    upload_budget_s: float = 600.0

    overtake_max: int = Field(default=64, ge=1)
    """No job is overtaken by more jobs of later rank than this; docs/scheduling.md tells about this and the next."""
    streak_max: int = Field(default=16, ge=1)
    """Jobs in a row with the same adapters, while others wait."""
    payback: float = Field(default=200.0, ge=0)
    """A saved swap may make the oldest job wait as long as this many swaps take; 0 keeps the order of arrival."""
    slack_jobs: int = Field(default=2, ge=0)
    """Jobs of one tenant that may follow each other while an older one of another tenant waits."""

    @property
    def images_folder(self) -> Path:
        """Where the folder store keeps its objects."""
        return self.store_folder or self.data_folder / "images"

    @property
    def fetched_folder(self) -> Path:
        """Where workers keep fetched adapters."""
        return self.adapter_cache_folder or self.cache_folder / "adapter-cache"

    @field_validator("redis_url")
    @classmethod
    def _is_redis_url(cls, url: SecretStr) -> SecretStr:
        # No message may repeat the URL: it can hold a password.
        text = url.get_secret_value()
        with suppress(ValueError):
            if text.startswith(("redis://", "rediss://")) and urlsplit(text).port != 0:
                return url
        raise ValueError("write redis://HOST:PORT/DATABASE, or rediss:// for TLS")

    @field_validator("hf_endpoint")
    @classmethod
    def _is_web_address(cls, url: str) -> str:
        with suppress(ValueError):
            parts = urlsplit(url)
            if parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc and parts.port != 0:
                return url.rstrip("/")
        raise ValueError("write https://HOST")

    @field_validator("adapter_s3_buckets", mode="before")
    @classmethod
    def _split_words(cls, value: Any) -> Any:
        return tuple(filter(None, map(str.strip, value.split(",")))) if isinstance(value, str) else value

    @field_validator("webhook_allowed_networks", "adapter_allowed_networks", mode="before")
    @classmethod
    def _split_networks(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return tuple(ip_network(word.strip()) for word in value.split(",") if word.strip())
        except ValueError:
            raise ValueError("write networks as in 10.0.0.0/8,fd00::/8") from None


SECRETS = frozenset(name for name, field in Settings.model_fields.items() if "SecretStr" in str(field.annotation))
"""Settings that must show nowhere."""


def _of_the_hub(name: str) -> str:
    # The hub's own variables, which its users have set already.
    return os.environ.get(name, "")


def _secret_or_none(text: str) -> SecretStr | None:
    return SecretStr(text) if text else None


@lru_cache(maxsize=1)
def settings() -> Settings:
    """The process's settings, read once; ``Misconfigured`` names each that is wrong, and never repeats its value."""
    secrets: dict[str, Any] = dict(from_files(SECRETS, os.environ, PREFIX))
    try:
        return Settings(**secrets)
    except ValidationError as error:
        raise Misconfigured(" ".join(map(_fault, error.errors(include_input=False, include_url=False)))) from None


def unknown_settings() -> dict[str, str]:
    """Names in the environment that look like ours but are no setting, and a sentence about each."""
    theirs = {name: name.upper().removeprefix(PREFIX).lower() for name in os.environ if name.upper().startswith(PREFIX)}
    known = Settings.model_fields.keys() | {f"{name}{SUFFIX}".lower() for name in SECRETS}
    return {name: _strange(name, said) for name, said in sorted(theirs.items()) if said not in known}


def _strange(name: str, said: str) -> str:
    close = get_close_matches(said, Settings.model_fields, n=1)
    return f"{name} is no setting; " + (f"did you mean {PREFIX}{close[0].upper()}?" if close else "it has no effect.")


def _fault(found: Any) -> str:
    name, said = f"{PREFIX}{found['loc'][0]}".upper(), found["msg"].removeprefix("Value error, ")
    return f"{name} is not valid: {said[:1].lower() + said[1:]}."
