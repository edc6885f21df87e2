#!/bin/sh
# An MLflow server for a team: users with passwords, artifacts by way of the server. Used alike by
# docker-compose.yaml, by mlflow.service and by hand. Secrets are read from files, and never stand in
# a command line, which everybody on the machine can read.
#
#   SECRETS        folder with the files admin_password, session_key and, for Postgres,
#                  database_password
#   DATABASE       where runs and users are kept; no password in it:
#                  postgresql://mlflow@db/mlflow, or sqlite:////srv/mlflow/mlflow.db
#   ARTIFACTS      folder, or s3://bucket/path
#   ALLOWED_HOSTS  what clients may call the server, as mlflow.example.org,127.0.0.1:5000
#   HOST, PORT     127.0.0.1 and 5000 unless set
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

# MANAGE: colleagues record into the same experiments, of which there is one an ablation, and a
# sweep that is recorded again replaces what was there.
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
