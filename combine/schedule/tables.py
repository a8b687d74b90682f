"""The tables of the queue, as SQL: what `Rows` reads and writes, and the indexes by which it finds it.

Whoever changes a table raises `database.VERSION`; an index may come and go. Indexes are partial, so that a row is only
in those of its state.
"""

from __future__ import annotations

SCHEMA = """
CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS site(
    id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, told REAL, auto REAL, crawl REAL NOT NULL DEFAULT 0,
    next REAL NOT NULL DEFAULT 0, rest REAL NOT NULL DEFAULT 0, shut INTEGER NOT NULL DEFAULT 0,
    blocked REAL NOT NULL DEFAULT 0, block_s REAL NOT NULL DEFAULT 0, reason TEXT NOT NULL DEFAULT '',
    failures INTEGER NOT NULL DEFAULT 0, refusals INTEGER NOT NULL DEFAULT 0, day INTEGER NOT NULL DEFAULT 0,
    requests INTEGER NOT NULL DEFAULT 0, bytes INTEGER NOT NULL DEFAULT 0, holder TEXT NOT NULL DEFAULT '');
CREATE TABLE IF NOT EXISTS scope(id INTEGER PRIMARY KEY, text TEXT UNIQUE NOT NULL);
CREATE TABLE IF NOT EXISTS seed(
    id INTEGER PRIMARY KEY, url TEXT UNIQUE NOT NULL, scope INTEGER NOT NULL, maxdepth INTEGER,
    tag TEXT NOT NULL DEFAULT '', delay TEXT NOT NULL DEFAULT '', budget TEXT NOT NULL DEFAULT '');
CREATE INDEX IF NOT EXISTS seed_budget ON seed(budget);
CREATE TABLE IF NOT EXISTS trap(site INTEGER, h INTEGER, urls INTEGER NOT NULL, PRIMARY KEY(site, h)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS budget(name TEXT PRIMARY KEY, left INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS lease(
    id INTEGER PRIMARY KEY, site INTEGER NOT NULL, pid INTEGER NOT NULL, start INTEGER NOT NULL,
    boot TEXT NOT NULL, until REAL NOT NULL, delay REAL NOT NULL, address TEXT NOT NULL, asked TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS job(
    seq INTEGER PRIMARY KEY, site INTEGER NOT NULL, h INTEGER NOT NULL, state INTEGER NOT NULL, kind TEXT NOT NULL,
    prio INTEGER NOT NULL, depth INTEGER NOT NULL, seed INTEGER NOT NULL, since TEXT NOT NULL DEFAULT '',
    fetch INTEGER NOT NULL DEFAULT 0, lease INTEGER NOT NULL DEFAULT 0, nrt INTEGER NOT NULL DEFAULT 0,
    first_failed REAL NOT NULL DEFAULT 0, later REAL NOT NULL DEFAULT 0, wait REAL NOT NULL DEFAULT 0,
    at REAL NOT NULL DEFAULT 0, batch TEXT NOT NULL DEFAULT '', reason TEXT NOT NULL DEFAULT '',
    events TEXT NOT NULL DEFAULT '', relinks TEXT NOT NULL DEFAULT '', line TEXT NOT NULL,
    scopes TEXT NOT NULL DEFAULT '', result TEXT NOT NULL DEFAULT '');
CREATE TEMP TABLE asked(site INTEGER, h INTEGER);
CREATE UNIQUE INDEX IF NOT EXISTS job_key ON job(site, h);
CREATE INDEX IF NOT EXISTS job_ready ON job(site, prio, depth, seq) WHERE state = 0 AND kind <> 'relink';
CREATE INDEX IF NOT EXISTS job_relink ON job(seq) WHERE state = 0 AND kind = 'relink';
CREATE INDEX IF NOT EXISTS job_errand ON job(site) WHERE kind = 'robots' AND state = 0;
CREATE INDEX IF NOT EXISTS job_later ON job(later) WHERE state = 1;
CREATE UNIQUE INDEX IF NOT EXISTS job_fetch ON job(fetch) WHERE fetch > 0;
DROP INDEX IF EXISTS job_lease;
CREATE INDEX IF NOT EXISTS job_batch ON job(batch) WHERE state = 3;
CREATE INDEX IF NOT EXISTS job_stored ON job(seq) WHERE state = 4;
CREATE INDEX IF NOT EXISTS job_dead ON job(site, kind) WHERE state = 5;
CREATE INDEX IF NOT EXISTS job_since ON job(since) WHERE since <> '' AND state < 5;
"""
