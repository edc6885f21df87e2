#!/bin/sh
# Start an MLflow server for a team, with users and passwords; it also serves the artifacts. Used by
# docker-compose.yaml, by mlflow.service and by hand. Secrets are read from files, since every user
# of the machine can read a command line.
#
#   SECRETS        folder with the files admin_password, session_key and, for Postgres,
#                  database_password
#   DATABASE       store of runs and users, without a password:
#                  postgresql://mlflow@db/mlflow, or sqlite:////srv/mlflow/mlflow.db
#   ARTIFACTS      folder, or s3://bucket/path
#   ALLOWED_HOSTS  names that clients may use for the server: mlflow.example.org,127.0.0.1:5000
#   HOST, PORT     127.0.0.1 and 5000 by default
set -eu
umask 077

: "${SECRETS:?}" "${DATABASE:?}" "${ARTIFACTS:?}" "${ALLOWED_HOSTS:?}"
MLFLOW_AUTH_ADMIN_PASSWORD=$(cat "$SECRETS/admin_password")
MLFLOW_FLASK_SERVER_SECRET_KEY=$(cat "$SECRETS/session_key")
export MLFLOW_AUTH_ADMIN_PASSWORD MLFLOW_FLASK_SERVER_SECRET_KEY
if [ -f "$SECRETS/database_password" ]; then
    PGPASSWORD=$(cat "$SECRETS/database_password")
    export PGPASSWORD # read by libpq
fi

# MANAGE, since all users record into the same experiments (one per ablation), and a sweep that is
# recorded again replaces the earlier record.
MLFLOW_AUTH_CONFIG_PATH=$(mktemp)
cat >"$MLFLOW_AUTH_CONFIG_PATH" <<END
[mlflow]
default_permission = MANAGE
database_uri = $DATABASE
admin_username = admin
authorization_function = mlflow.server.auth:authenticate_request_basic_auth
END
export MLFLOW_AUTH_CONFIG_PATH MLFLOW_DISABLE_TELEMETRY=true

exec mlflow server --app-name basic-auth \
    --host "${HOST:-127.0.0.1}" --port "${PORT:-5000}" --workers "${WORKERS:-2}" \
    --backend-store-uri "$DATABASE" --artifacts-destination "$ARTIFACTS" \
    --allowed-hosts "$ALLOWED_HOSTS"
