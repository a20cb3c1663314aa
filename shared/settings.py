"""All settings, and the only place that reads the environment (prefix ``HOTSLOT_``)."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

Network = IPv4Network | IPv6Network


class Settings(BaseSettings):
    """Settings of every process. Durations carry their unit in the name."""

    model_config = SettingsConfigDict(env_prefix="HOTSLOT_", extra="ignore", frozen=True)

    redis_url: SecretStr = SecretStr("redis://127.0.0.1:6379/0")
    redis_require_durable: bool = True
    """Refuse a server without ``noeviction`` and AOF."""

    catalogue: Path | None = None
    data_folder: Path = Path.home() / ".local" / "share" / "hotslot"
    """Spool, embedded server, folder store."""
    cache_folder: Path = Path.home() / ".cache" / "hotslot"
    """Built-in models and adapters; safe to delete."""
    adapter_folder: Path | None = None
    """Root of ``file:`` adapter sources; none are taken without it."""

    public_url: str = "http://127.0.0.1:8000"
    """How callers reach the API; links in jobs and webhooks start with it."""
    signing_key: SecretStr | None = None
    """Signs the folder store's download links. Without it each API process draws its own."""

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
    webhook_allowed_networks: tuple[Network, ...] = ()
    """Private networks that webhooks may reach all the same, in CIDR form."""
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

    streak_max: int = Field(default=16, ge=1)
    slack_ms: int = Field(default=60_000, ge=0)
    overtake_max: int = Field(default=64, ge=1)

    @property
    def images_folder(self) -> Path:
        """Where the folder store keeps its objects."""
        return self.store_folder or self.data_folder / "images"


@lru_cache(maxsize=1)
def settings() -> Settings:
    """The process's settings, read once."""
    return Settings()
