"""Who may use the server: whoever has the token.

It can be shown in three ways, of which the second is what flux-restful-client does:

- HTTP Basic, with the one user name and the token as password;
- an access token, asked for at /v1/token with user name and token in a JSON web token (RFC 7519) that is signed with
  the secret key, which is the token here;
- `Authorization: Bearer` and the token itself.

The keys of access tokens live as long as the server does.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import secrets
import time
from typing import Any, Callable, Mapping

from .answers import Problem, refused

LIFETIME = 600 * 60
"""Seconds for which an access token is good, as in flux-restful-api."""
CHALLENGE = (("WWW-Authenticate", 'Basic realm="kueue-flux"'), ("WWW-Authenticate", "Bearer"))
ONE_USER = "this server runs every job as one user; flux-restful-api's multi-user mode (PAM) is not supported"


class Gate:
    """Decides about credentials.

    Args:
        token: The token; None lets everybody in.
        user: The user name that goes with it.
        now: The time in seconds since the epoch.
    """

    def __init__(self, token: str | None, user: str, now: Callable[[], float] = time.time) -> None:
        self._token = None if token is None else token.encode()
        self._user = user
        self._now = now
        self._key = secrets.token_bytes(32)

    @property
    def open(self) -> bool:
        """Whether everybody may enter."""
        return self._token is None

    def check(self, header: str | None) -> None:
        """Let the bearer of an Authorization header in.

        Raises:
            Problem: 401 for anything but one of the three ways; 501 for the token with another user's name.
        """
        if self._token is None:
            return
        scheme, _, value = (header or "").strip().partition(" ")
        value = value.strip()
        if scheme.lower() == "basic" and self._basic(value):
            return
        if scheme.lower() == "bearer" and (_same(_sent(value), self._token) or self._is_access_token(value)):
            return
        missing = "Not authenticated: this needs the token" if not header else "Incorrect user or token"
        raise refused(401, f"{missing} ({ONE_USER}).", *CHALLENGE)

    def login(self, user: str, token: str) -> dict[str, str] | None:
        """A new access token as flux-restful-api answers it; None where user or token is wrong.

        Raises:
            Problem: 501 for the token with another user's name.
        """
        if self._token is not None:
            if not _same(token.encode(), self._token):
                return None
            self._same_user(user)
        claims = {"exp": int(self._now()) + LIFETIME, "sub": self._user}
        return {"access_token": sign(claims, self._key), "token_type": "Bearer"}

    def login_by_payload(self, header: str | None) -> dict[str, str] | None:
        """The same, for the signed payload that flux-restful-client sends to /v1/token."""
        if self._token is None:
            return self.login("", "")
        claims = verify((header or "").rpartition(" ")[2], self._token) or {}
        user, token = claims.get("user"), claims.get("pass")
        if claims.get("scope") != "token" or not isinstance(user, str) or not isinstance(token, str):
            return None
        return self.login(user, token)

    def _basic(self, value: str) -> bool:
        try:
            user, colon, password = base64.b64decode(value, validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            return False
        if not colon or self._token is None or not _same(password.encode(), self._token):
            return False
        self._same_user(user)
        return True

    def _same_user(self, user: str) -> None:
        if not _same(user.encode(), self._user.encode()):
            raise Problem(501, {"detail": f"{ONE_USER}. The user name that goes with the token is {self._user}"})

    def _is_access_token(self, value: str) -> bool:
        claims = verify(value, self._key)
        expiry = claims.get("exp") if claims else None
        return isinstance(expiry, int) and self._now() < expiry


def sign(claims: Mapping[str, Any], key: bytes) -> str:
    """A JSON web token with these claims, signed with HS256."""
    parts = [_encode(json.dumps(part).encode()) for part in ({"alg": "HS256", "typ": "JWT"}, claims)]
    return ".".join([*parts, _encode(_mac(".".join(parts), key))])


def verify(token: str, key: bytes) -> dict[str, Any] | None:
    """The claims of a JSON web token; None if it is none, or not signed with HS256 and this key."""
    signed, _, signature = token.rpartition(".")
    header, _, claims = signed.partition(".")
    try:
        if json.loads(_decode(header)).get("alg") != "HS256" or not _same(_decode(signature), _mac(signed, key)):
            return None
        found = json.loads(_decode(claims))
    except (ValueError, AttributeError, RecursionError):  # neither base64 nor JSON, or no object
        return None
    return found if isinstance(found, dict) else None


def _mac(signed: str, key: bytes) -> bytes:
    return hmac.new(key, signed.encode(), "sha256").digest()


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decode(text: str) -> bytes:
    return base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)


def _sent(header: str) -> bytes:
    """The bytes that a header's value came as: http.server takes them for Latin-1."""
    return header.encode("latin-1", "replace")


def _same(one: bytes, other: bytes) -> bool:
    """Compare in a time that does not tell where they differ."""
    return hmac.compare_digest(one, other)
