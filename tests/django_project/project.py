"""Settings of any project; those of the documentation follow them."""

import json
import os

DATABASES = json.loads(os.environ["DATABASES"])
DATABASE_ROUTERS = json.loads(os.environ.get("DATABASE_ROUTERS", "[]"))
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "orders",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # no test is about waiting for another
ROOT_URLCONF = "urls"
SECRET_KEY = "tests"
STATIC_URL = "static/"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
# Not UTC, so that what is shown or compared in the wrong zone is wrong.
TIME_ZONE = "Asia/Tokyo"
USE_TZ = True
