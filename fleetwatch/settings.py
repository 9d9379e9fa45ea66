"""Settings: read from the environment, here and nowhere else (12-factor)."""

import sys
from pathlib import Path

import structlog
from csp.constants import NONCE, NONE, SELF

from fleetwatch.lib import env, redis_servers
from fleetwatch.lib.ldap.ldap_directory import read_directory
from fleetwatch.lib.logs import lossy

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = env.data_dir()

_runtime = None if env.text("DATABASE_URL") else env.read_runtime(DATA_DIR)

DEBUG = env.boolean("FLEETWATCH_DEBUG", False)
SECRET_KEY = env.text("SECRET_KEY") or (_runtime.secret_key if _runtime else "")
# Older SECRET_KEYs, comma-separated: still open sessions and channel settings until `manage.py
# rotate_secrets` was run.
SECRET_KEY_FALLBACKS = env.words("FLEETWATCH_SECRET_KEYS", [])
# The address people and agents use; install commands and links in messages carry it.
# Commands that find the embedded stack by its data folder take the address that it runs at.
PUBLIC_URL = env.address(
    "FLEETWATCH_PUBLIC_URL", (_runtime.public_url if _runtime else "") or "http://127.0.0.1:8000"
)
ALLOWED_HOSTS = env.words(
    "ALLOWED_HOSTS", ["localhost", "127.0.0.1", "[::1]", env.host_of(PUBLIC_URL)]
)
CSRF_TRUSTED_ORIGINS = env.words("CSRF_TRUSTED_ORIGINS", [])
BEHIND_TLS_PROXY = env.boolean("FLEETWATCH_BEHIND_TLS_PROXY", False)

ROOT_URLCONF = "fleetwatch.urls"
AUTH_USER_MODEL = "accounts.User"
# what the fleet's report says beside the ledger; reports do not know the room that says it
BESIDE_THE_LEDGER = "fleetwatch.finance.report_lines.BESIDE"
# which findings nobody need decide about; diagnosis does not know the room that says it
EXEMPT_FINDINGS = "fleetwatch.alerts.exempt_jobs.exempt"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en-us"
USE_I18N = False

INSTALLED_APPS = [
    "fleetwatch.stack",
    "fleetwatch.operations",
    "fleetwatch.accounts",
    "fleetwatch.inventory",
    "fleetwatch.jobs",
    "fleetwatch.telemetry",
    "fleetwatch.ingest",
    "fleetwatch.ledger",
    "fleetwatch.costs",
    "fleetwatch.budgets",
    "fleetwatch.diagnosis",
    "fleetwatch.notify",
    "fleetwatch.alerts",
    "fleetwatch.actions",
    "fleetwatch.reports",
    "fleetwatch.planning",
    "fleetwatch.finance",
    "fleetwatch.dashboard",
    "fleetwatch.api",
    "fleetwatch.demo",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "django.contrib.humanize",  # allauth's list of passkeys
    "django_htmx",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "csp",
]

MIDDLEWARE = [
    "fleetwatch.lib.compression.Compression",
    "fleetwatch.lib.memo.remember_reads",
    "fleetwatch.lib.replica.know_own_writes",
    "fleetwatch.api.middleware.answer_in_json",  # around all below: their refusals are answers too
    "fleetwatch.api.middleware.name_the_demo",
    "django.middleware.security.SecurityMiddleware",
    "fleetwatch.lib.static_files.StaticFiles",
    "fleetwatch.lib.content_policy.ContentPolicy",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "fleetwatch.accounts.middleware.name_actor",
    "fleetwatch.accounts.visibility.NarrowToReader",
    "django.contrib.messages.middleware.MessageMiddleware",
    "fleetwatch.accounts.log_in.second_factor.require",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "fleetwatch.dashboard.middleware.refuse_nul",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "OPTIONS": {
            "loaders": [
                (
                    "django.template.loaders.cached.Loader",
                    [
                        "fleetwatch.lib.page_templates.Loader",
                        "django.template.loaders.app_directories.Loader",
                    ],
                )
            ],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "csp.context_processors.nonce",
                "fleetwatch.accounts.permissions.for_templates",
                "fleetwatch.accounts.visibility.for_templates",
                "fleetwatch.demo.history_progress.for_templates",
            ],
        },
    }
]

env.refuse_published("SECRET_KEY", SECRET_KEY)
env.refuse_published("POSTGRES_PASSWORD (in DATABASE_URL)", env.password_of("DATABASE_URL"))
env.refuse_published("REDIS_PASSWORD (in REDIS_URL)", env.password_of("REDIS_URL"))
_database_url = env.text("DATABASE_URL") or (_runtime.database_url if _runtime else "")
# Without an address Django still starts (help, makemigrations --check); touching the database says
# what to do.
NO_DATABASE = "/nowhere-is-a-database"
DATABASES = {
    "default": env.database(
        _database_url or f"postgresql://fleetwatch@/fleetwatch?host={NO_DATABASE}"
    )
}
# A streaming replica that pages read from while it is current
if _replica_url := env.text("FLEETWATCH_REPLICA_URL"):
    DATABASES["replica"] = env.database(_replica_url, "FLEETWATCH_REPLICA_URL")
DATABASE_ROUTERS = ["fleetwatch.lib.replica.Router"]
# Of the embedded database, whose disk can be looked at; None of another one.
DATABASE_FOLDER = DATA_DIR / "postgres" if _runtime else None
# A pooler that hands each transaction to any of its sessions (PgBouncer, pool_mode = transaction):
# nothing is prepared, no cursor outlives its transaction, and what a session is set to, the
# pooler sets.
BEHIND_POOLER = env.boolean("FLEETWATCH_DB_BEHIND_POOLER", False)
# Of the web process: what no page and no form takes. Background work and migrations have no such
# limit.
_statement_s = env.integer("FLEETWATCH_DB_STATEMENT_S", 0, low=0, high=3600)
_pool = env.integer("FLEETWATCH_DB_POOL", 16, low=0, high=100)
for _alias, _database in DATABASES.items():
    _database["CONN_MAX_AGE"] = 0
    _database["DISABLE_SERVER_SIDE_CURSORS"] = BEHIND_POOLER
    # A server that can't be reached, or does not answer any more, is noticed within seconds (on
    # TCP; the web process asks besides).
    _database["OPTIONS"] = {
        "connect_timeout": 5,
        "keepalives_idle": 10,
        "keepalives_interval": 3,
        "keepalives_count": 3,
        "tcp_user_timeout": 10_000,  # ms
        **_database["OPTIONS"],
    }
    if not BEHIND_POOLER:
        # compiled for one execution, a month's figures take twice as long
        _options = f"-c jit=off {_database['OPTIONS'].get('options', '')}"
        if _statement_s:
            _options += f" -c statement_timeout={_statement_s}s -c lock_timeout=5s"
        _database["OPTIONS"]["options"] = _options.strip()
    if _pool:
        # after so many seconds without a connection a request answers 503 and a task fails:
        # neither hangs; of a replica the primary is asked instead
        _wait_s = 5 if _alias == "default" else 1
        _database["OPTIONS"]["pool"] = {"min_size": 1, "max_size": _pool, "timeout": _wait_s}

# Of one server, or sentinel://:password@host:26379,host:26379/0?master=NAME of those that know
# which one it is now
REDIS_URL = env.text("REDIS_URL") or (_runtime.redis_url if _runtime else "")
_redis = redis_servers.read(REDIS_URL)
CACHES = {
    "default": (
        {"BACKEND": "fleetwatch.lib.cache.JSONCache", "LOCATION": REDIS_URL}
        if REDIS_URL
        else {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
    )
}
SESSION_ENGINE = "fleetwatch.accounts.sessions"

# Django's own besides would hash each wrong password a second time.
AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]
# Log-in by a directory, where there is one. docs/people.md
DIRECTORY = read_directory()
DIRECTORY_ROLES = env.pairs("FLEETWATCH_LDAP_ROLES")
DIRECTORY_TEAMS = env.pairs("FLEETWATCH_LDAP_TEAMS")
if DIRECTORY:
    AUTHENTICATION_BACKENDS += ["fleetwatch.accounts.log_in.directory_login.Backend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 12},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "/"
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_ADAPTER = "fleetwatch.accounts.log_in.adapter.Adapter"
# wrong passwords of one address, whatever the name; how often it may try one name says
# accounts/log_in/throttle.py
ACCOUNT_RATE_LIMITS = {"login_failed": "10/m/ip", "login": None}
# Single sign-on: the provider, how it calls itself on the log-in page, and which of its groups have
# which role and are which team. docs/people.md
OIDC_NAME = env.text("FLEETWATCH_OIDC_NAME", "Single sign-on")
OIDC_GROUPS_CLAIM = env.text("FLEETWATCH_OIDC_GROUPS_CLAIM", "groups")
OIDC_ROLES = env.pairs("FLEETWATCH_OIDC_ROLES")
OIDC_TEAMS = env.pairs("FLEETWATCH_OIDC_TEAMS")
# the claim that is the name which the user's jobs run under; none: not known from there
OIDC_USER_CLAIM = env.text("FLEETWATCH_OIDC_USER_CLAIM")
OIDC_ISSUER = env.text("FLEETWATCH_OIDC_ISSUER")
SOCIALACCOUNT_PROVIDERS = {
    "openid_connect": {
        "OAUTH_PKCE_ENABLED": True,
        "SCOPE": env.words("FLEETWATCH_OIDC_SCOPE", ["openid", "profile", "email"]),
        "APPS": [
            {
                "provider_id": "sso",
                "name": OIDC_NAME,
                "client_id": env.text("FLEETWATCH_OIDC_CLIENT_ID"),
                "secret": env.text("FLEETWATCH_OIDC_CLIENT_SECRET"),
                "settings": {"server_url": env.address("FLEETWATCH_OIDC_ISSUER", "")},
            }
        ]
        if OIDC_ISSUER
        else [],
    }
}
SOCIALACCOUNT_ADAPTER = "fleetwatch.accounts.log_in.single_sign_on.Adapter"
# a form's answer may not lead to the provider (form-action of the policy), a link may; state and
# PKCE keep strangers from starting it for others
SOCIALACCOUNT_LOGIN_ON_GET = True
SOCIALACCOUNT_EMAIL_AUTHENTICATION = True  # an account of the same verified address is the person's
SOCIALACCOUNT_EMAIL_AUTHENTICATION_AUTO_CONNECT = True
MFA_ADAPTER = "fleetwatch.accounts.log_in.second_factor.Adapter"
MFA_FORMS = {
    "authenticate": "fleetwatch.accounts.log_in.codes.AuthenticateForm",
    "reauthenticate": "fleetwatch.accounts.log_in.codes.ReauthenticateForm",
}
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_ALLOW_UNVERIFIED_EMAIL = True  # addresses are an admin's word, none is verified
MFA_TOTP_TOLERANCE = 1
# browsers have passkeys over https and on the own machine alone
MFA_WEBAUTHN_ALLOW_INSECURE_ORIGIN = PUBLIC_URL.startswith("http://")
ALLAUTH_TRUSTED_PROXY_COUNT = env.integer("FLEETWATCH_TRUSTED_PROXIES", 0, low=0, high=5)

STATIC_URL = "/static/"
STATIC_ROOT = Path(env.text("FLEETWATCH_STATIC_ROOT", str(BASE_DIR / "staticfiles")))
STATICFILES_DIRS = [BASE_DIR / "static"]
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.FileSystemFinder",
    "django.contrib.staticfiles.finders.AppDirectoriesFinder",
    "fleetwatch.dashboard.finders.PlotlyFinder",
]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF, NONCE],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
        "manifest-src": [SELF],
    }
}
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = BEHIND_TLS_PROXY
if BEHIND_TLS_PROXY:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_HSTS_SECONDS = 31_536_000

EMAIL_TIMEOUT = 15
# Self-hosted chat and mail servers mostly have private addresses; metadata and link-local ones are
# refused in any case.
ALLOW_PRIVATE_WEBHOOKS = env.boolean("FLEETWATCH_ALLOW_PRIVATE_WEBHOOKS", True)
DATA_UPLOAD_MAX_MEMORY_SIZE = 8 * 1024 * 1024 + 65_536

# How long what is stored is kept, tier by tier. Batches as received: hours after their partition's
# end, once they are sealed.
HOT_RETENTION_HOURS = env.integer("FLEETWATCH_HOT_RETENTION_HOURS", 1, low=1, high=720)
RAW_RETENTION_DAYS = env.integer("FLEETWATCH_RAW_RETENTION_DAYS", 35, low=1, high=3650)
# Five-minute cells of heat maps: 1 % of the raw columns' bytes, so they may stay as long as the
# ledger.
MATRIX_RETENTION_DAYS = env.integer("FLEETWATCH_MATRIX_RETENTION_DAYS", 400, low=1, high=3650)
LEDGER_RETENTION_DAYS = env.integer("FLEETWATCH_LEDGER_RETENTION_DAYS", 400, low=31, high=3650)
if RAW_RETENTION_DAYS > LEDGER_RETENTION_DAYS:
    raise env.ConfigurationError(
        f"FLEETWATCH_RAW_RETENTION_DAYS: expected at most the ledger's {LEDGER_RETENTION_DAYS}, not"
        f" {RAW_RETENTION_DAYS}"
    )
# Spending that is unusual by less than this is no anomaly.
ANOMALY_FLOOR_USD_PER_DAY = env.integer(
    "FLEETWATCH_ANOMALY_FLOOR_USD_PER_DAY", 50, low=0, high=1_000_000
)
# Who may read /metrics without a token: addresses and networks, by the connection's own address.
METRICS_ALLOW = env.networks("FLEETWATCH_METRICS_ALLOW")

CELERY_BROKER_URL = _redis.broker_url
CELERY_BROKER_TRANSPORT_OPTIONS = {"visibility_timeout": 1200, **_redis.broker_options}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {"expected": {"()": "fleetwatch.lib.logs.ExpectedRefusals"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "filters": ["expected"]}},
    "loggers": {
        "django": {"handlers": ["stderr"], "level": "WARNING"},
        "django.request": {"level": "ERROR"},
    },
}
structlog.configure(
    processors=[
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        (
            structlog.processors.JSONRenderer()
            if env.boolean("FLEETWATCH_LOG_JSON", False)
            else structlog.processors.KeyValueRenderer(key_order=["timestamp", "level", "event"])
        ),
    ],
    logger_factory=structlog.PrintLoggerFactory(lossy(sys.stderr)),
    cache_logger_on_first_use=True,
)
