#!/bin/sh
# Run once by the database's image, on an empty database: the two logins of
# docs/running.md, with passwords that are never part of a command line.
set -eu
psql --quiet --set ON_ERROR_STOP=1 --username postgres --dbname postgres <<'SQL'
\set owner `cat /run/secrets/owner`
\set service `cat /run/secrets/service`
CREATE ROLE coffer_owner LOGIN CREATEROLE PASSWORD :'owner';
CREATE ROLE coffer LOGIN NOINHERIT PASSWORD :'service';
CREATE DATABASE coffer OWNER coffer_owner;
SQL
