-- How people sign in: accounts, factors, invitations, sessions, and the failures that slow an
-- attacker down. The tables span organizations, so coffer_app has no privilege on any of them. What
-- verifies a password, a code or a token is readable by coffer_system alone: reports and checks
-- (coffer_reader) read the other columns.

-- Takes from coffer_reader what coffer_shared granted, except for the named columns.
CREATE FUNCTION coffer_hide(tbl regclass, readable text) RETURNS void LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    EXECUTE format('REVOKE SELECT ON %s FROM coffer_reader', tbl);
    IF readable <> '' THEN
        EXECUTE format('GRANT SELECT (%s) ON %s TO coffer_reader', readable, tbl);
    END IF;
END
$$;
REVOKE ALL ON FUNCTION coffer_hide(regclass, text) FROM PUBLIC;

-- An account belongs to one side: the members of organizations, or the operators. It has no right of
-- its own.
CREATE TABLE accounts (
    account_id       text COLLATE "C" PRIMARY KEY,
    side             text NOT NULL,
    email            text NOT NULL,           -- folded: NFKC, lower case
    name             text NOT NULL,
    time_zone        text NOT NULL DEFAULT '', -- '' until the browser said it
    password_hash    text NOT NULL,           -- a PHC string of Argon2id
    passkey_handle   bytea NOT NULL,          -- the user.id of passkeys: random, and no e-mail
    restricted_until timestamptz,             -- after the use of a recovery code
    created_at       timestamptz NOT NULL,
    CONSTRAINT accounts_email_unique UNIQUE (side, email),
    CONSTRAINT accounts_handle_unique UNIQUE (passkey_handle),
    CONSTRAINT accounts_side_known CHECK (side IN ('MEMBER', 'OPERATOR')),
    CONSTRAINT accounts_named CHECK (name <> '' AND length(name) <= 200 AND email <> '' AND length(time_zone) <= 64),
    CONSTRAINT accounts_password_hashed CHECK (password_hash LIKE '$argon2id$v=19$m=%'),
    CONSTRAINT accounts_handle_random CHECK (length(passkey_handle) = 32)
);
SELECT coffer_shared('accounts', '',
    'SELECT, INSERT, UPDATE (name, time_zone, password_hash, restricted_until)');
SELECT coffer_hide('accounts', 'account_id, side, email, name, time_zone, restricted_until, created_at');
-- The rows of persons name an account, and its side and e-mail decide who may.
CREATE TRIGGER accounts_as_inserted BEFORE UPDATE OF account_id, side, email, passkey_handle, created_at ON accounts
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER accounts_stay BEFORE DELETE OR TRUNCATE ON accounts
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The secret of an authenticator app, sealed for its account and its row. It counts once a code has
-- confirmed it; a new one replaces it. last_step is the last time step whose code was used.
CREATE TABLE account_totps (
    totp_id      text COLLATE "C" PRIMARY KEY,
    account_id   text NOT NULL,
    sealed       bytea NOT NULL,
    created_at   timestamptz NOT NULL,
    confirmed_at timestamptz,
    last_step    bigint NOT NULL DEFAULT 0,
    CONSTRAINT account_totps_account FOREIGN KEY (account_id) REFERENCES accounts,
    CONSTRAINT account_totps_used_when_confirmed CHECK ((confirmed_at IS NULL) = (last_step = 0))
);
CREATE UNIQUE INDEX account_totps_one_live ON account_totps (account_id) WHERE confirmed_at IS NOT NULL;
CREATE UNIQUE INDEX account_totps_one_waiting ON account_totps (account_id) WHERE confirmed_at IS NULL;
SELECT coffer_shared('account_totps', '', 'SELECT, INSERT, DELETE, UPDATE (confirmed_at, last_step)');
SELECT coffer_hide('account_totps', 'totp_id, account_id, created_at, confirmed_at');

-- A code counts once: the step only rises. Rule SIGN-4.
CREATE FUNCTION account_totps_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (NEW.totp_id, NEW.account_id, NEW.sealed, NEW.created_at) IS DISTINCT FROM (OLD.totp_id, OLD.account_id, OLD.sealed, OLD.created_at)
       OR OLD.confirmed_at IS NOT NULL AND NEW.confirmed_at IS DISTINCT FROM OLD.confirmed_at
       OR NEW.last_step <= OLD.last_step THEN
        RAISE EXCEPTION 'TOTP secret % stays, and each of its steps counts once', OLD.totp_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'account_totps_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER account_totps_keep BEFORE UPDATE ON account_totps FOR EACH ROW EXECUTE FUNCTION account_totps_keep();

-- Recovery codes: ten for an account, each of 80 bits, so that SHA-256 is hash enough.
CREATE TABLE account_recovery_codes (
    account_id text NOT NULL,
    hash       bytea NOT NULL,
    created_at timestamptz NOT NULL,
    used_at    timestamptz,
    CONSTRAINT account_recovery_codes_pkey PRIMARY KEY (account_id, hash),
    CONSTRAINT account_recovery_codes_account FOREIGN KEY (account_id) REFERENCES accounts,
    CONSTRAINT account_recovery_codes_sha256 CHECK (length(hash) = 32)
);
SELECT coffer_shared('account_recovery_codes', '', 'SELECT, INSERT, DELETE, UPDATE (used_at)');
SELECT coffer_hide('account_recovery_codes', 'account_id, created_at, used_at');
-- A used code stays used. Rule SIGN-6.
CREATE TRIGGER account_recovery_codes_written_once BEFORE UPDATE ON account_recovery_codes FOR EACH ROW
    WHEN (OLD.used_at IS NOT NULL
        OR (NEW.account_id, NEW.hash, NEW.created_at) IS DISTINCT FROM (OLD.account_id, OLD.hash, OLD.created_at))
    EXECUTE FUNCTION refuse_row_change();

CREATE TABLE account_passkeys (
    passkey_id    text COLLATE "C" PRIMARY KEY,
    account_id    text NOT NULL,
    credential_id bytea NOT NULL,
    public_key    bytea NOT NULL, -- COSE
    flags         smallint NOT NULL,
    sign_count    bigint NOT NULL,
    aaguid        bytea NOT NULL,
    transports    text[] NOT NULL,
    name          text NOT NULL,
    created_at    timestamptz NOT NULL,
    last_used_at  timestamptz,
    CONSTRAINT account_passkeys_account FOREIGN KEY (account_id) REFERENCES accounts,
    CONSTRAINT account_passkeys_credential_unique UNIQUE (credential_id),
    CONSTRAINT account_passkeys_bounded CHECK (
        length(credential_id) BETWEEN 1 AND 1023 AND length(public_key) BETWEEN 1 AND 4096
        AND name <> '' AND length(name) <= 100 AND flags BETWEEN 0 AND 255 AND sign_count BETWEEN 0 AND 4294967295)
);
CREATE INDEX account_passkeys_of_account ON account_passkeys (account_id, created_at);
SELECT coffer_shared('account_passkeys', '', 'SELECT, INSERT, DELETE, UPDATE (flags, sign_count, last_used_at)');
SELECT coffer_hide('account_passkeys', 'passkey_id, account_id, name, created_at, last_used_at');
CREATE TRIGGER account_passkeys_as_inserted
    BEFORE UPDATE OF passkey_id, account_id, credential_id, public_key, aaguid, transports, name, created_at ON account_passkeys
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Operators who sign in. Keys of programs are in operator_keys.
CREATE TABLE operators (
    operator_id text COLLATE "C" PRIMARY KEY,
    account_id  text, -- NULL until the invitation is accepted
    email       text NOT NULL,
    name        text NOT NULL,
    roles       text[] NOT NULL,
    created_at  timestamptz NOT NULL,
    ended_at    timestamptz,
    CONSTRAINT operators_account FOREIGN KEY (account_id) REFERENCES accounts,
    CONSTRAINT operators_account_unique UNIQUE (account_id),
    CONSTRAINT operators_named CHECK (name <> '' AND length(name) <= 200 AND email <> ''),
    CONSTRAINT operators_roles_known CHECK (roles <@ ARRAY['OPERATOR','AUDITOR'] AND cardinality(roles) > 0)
);
CREATE UNIQUE INDEX operators_email_unique ON operators (email);
SELECT coffer_shared('operators', '', 'SELECT, INSERT, UPDATE (account_id, name, roles, ended_at)');
CREATE TRIGGER operators_as_inserted BEFORE UPDATE OF operator_id, email, created_at ON operators
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Refuses a person, or an operator, whose account is of the other side or has another e-mail, and an
-- account that changes while the person has access. Access that ended comes back without the
-- account, so only a new invitation gives the person one. Rule SIGN-8.
CREATE FUNCTION person_account() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    wanted_side text := CASE TG_TABLE_NAME WHEN 'operators' THEN 'OPERATOR' ELSE 'MEMBER' END;
BEGIN
    IF NEW.account_id IS NOT NULL AND NOT EXISTS (
        SELECT FROM accounts a
        WHERE a.account_id = NEW.account_id AND a.side = wanted_side AND a.email = NEW.email) THEN
        RAISE EXCEPTION 'account % does not have the e-mail and the side of the person', NEW.account_id
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_TABLE_NAME || '_account_fits';
    END IF;
    IF TG_OP = 'UPDATE' AND OLD.account_id IS NOT NULL AND NEW.account_id IS DISTINCT FROM OLD.account_id
       AND NOT (NEW.account_id IS NULL AND OLD.ended_at IS NOT NULL AND NEW.ended_at IS NULL)
       OR TG_OP = 'UPDATE' AND OLD.ended_at IS NOT NULL AND NEW.ended_at IS NULL AND NEW.account_id IS NOT NULL THEN
        RAISE EXCEPTION 'the account of a person stays, and access that ended begins with an invitation'
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_TABLE_NAME || '_account_stays';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER people_account_fits BEFORE INSERT OR UPDATE ON people FOR EACH ROW EXECUTE FUNCTION person_account();
CREATE TRIGGER operators_account_fits BEFORE INSERT OR UPDATE ON operators FOR EACH ROW EXECUTE FUNCTION person_account();
ALTER TABLE people ADD CONSTRAINT people_account FOREIGN KEY (account_id) REFERENCES accounts;

-- A link that gives a person an account. The table has the SHA-256 of its token.
CREATE TABLE invitations (
    invitation_id text COLLATE "C" PRIMARY KEY,
    hash          bytea NOT NULL,
    member_id     text, -- of one organization, by its row
    operator_id   text,
    created_at    timestamptz NOT NULL,
    expires_at    timestamptz NOT NULL,
    ended_at      timestamptz,
    end_reason    text,
    CONSTRAINT invitations_hash_unique UNIQUE (hash),
    CONSTRAINT invitations_sha256 CHECK (length(hash) = 32),
    CONSTRAINT invitations_member FOREIGN KEY (member_id) REFERENCES people,
    CONSTRAINT invitations_operator FOREIGN KEY (operator_id) REFERENCES operators,
    CONSTRAINT invitations_of_one CHECK (num_nonnulls(member_id, operator_id) = 1),
    CONSTRAINT invitations_expire CHECK (expires_at > created_at),
    CONSTRAINT invitations_ended CHECK (
        (ended_at IS NULL) = (end_reason IS NULL) AND end_reason IN ('ACCEPTED', 'REPLACED', 'REVOKED')
        AND (end_reason <> 'ACCEPTED' OR ended_at < expires_at))
);
CREATE UNIQUE INDEX invitations_one_of_member ON invitations (member_id) WHERE ended_at IS NULL;
CREATE UNIQUE INDEX invitations_one_of_operator ON invitations (operator_id) WHERE ended_at IS NULL;
SELECT coffer_shared('invitations', '', 'SELECT, INSERT, UPDATE (ended_at, end_reason)');
SELECT coffer_hide('invitations',
    'invitation_id, member_id, operator_id, created_at, expires_at, ended_at, end_reason');
-- An invitation is accepted, replaced or revoked once. Rule SIGN-7.
CREATE TRIGGER invitations_written_once BEFORE UPDATE ON invitations FOR EACH ROW
    WHEN (OLD.ended_at IS NOT NULL
        OR (NEW.invitation_id, NEW.hash, NEW.member_id, NEW.operator_id, NEW.created_at, NEW.expires_at)
            IS DISTINCT FROM
            (OLD.invitation_id, OLD.hash, OLD.member_id, OLD.operator_id, OLD.created_at, OLD.expires_at))
    EXECUTE FUNCTION refuse_row_change();

-- A session of a browser. The table has the SHA-256 of the token in its cookie.
CREATE TABLE sessions (
    session_id   text COLLATE "C" PRIMARY KEY,
    account_id   text NOT NULL,
    hash         bytea NOT NULL,
    state        text NOT NULL,
    member_id    text, -- the person of the chosen organization
    device       text NOT NULL,
    address      text NOT NULL,
    created_at   timestamptz NOT NULL,
    last_seen_at timestamptz NOT NULL, -- to the minute
    expires_at   timestamptz NOT NULL,
    factor       text,        -- the last factor that was shown
    factor_at    timestamptz, -- when
    wrong_codes  smallint NOT NULL DEFAULT 0, -- since the last factor
    ended_at     timestamptz,
    end_reason   text,
    audience     text NOT NULL DEFAULT 'PAGES', -- the pages for which it was opened
    CONSTRAINT sessions_hash_unique UNIQUE (hash),
    CONSTRAINT sessions_sha256 CHECK (length(hash) = 32),
    CONSTRAINT sessions_account FOREIGN KEY (account_id) REFERENCES accounts,
    CONSTRAINT sessions_member FOREIGN KEY (member_id) REFERENCES people,
    CONSTRAINT sessions_state_known CHECK (state IN ('AWAITING_FACTOR', 'MUST_ENROL', 'OPEN', 'ENDED')),
    CONSTRAINT sessions_factor_known CHECK (
        (factor IS NULL) = (factor_at IS NULL) AND factor IN ('TOTP', 'PASSKEY', 'RECOVERY_CODE')),
    -- Nothing is visible without a second factor. Rule SIGN-2.
    CONSTRAINT sessions_open_with_factor CHECK (state <> 'OPEN' OR factor IS NOT NULL),
    CONSTRAINT sessions_member_when_open CHECK (member_id IS NULL OR state IN ('OPEN', 'ENDED')),
    CONSTRAINT sessions_ended CHECK (
        (state = 'ENDED') = (ended_at IS NOT NULL) AND (ended_at IS NULL) = (end_reason IS NULL)
        AND end_reason IN ('SIGNED_OUT', 'ENDED_BY_PERSON', 'ENDED_BY_OTHER', 'PASSWORD_CHANGED', 'FACTORS_CHANGED',
            'ROLES_CHANGED', 'ACCESS_ENDED', 'RECOVERY_USED', 'TOO_MANY_CODES', 'IDLE', 'TOO_OLD', 'REPLACED')),
    CONSTRAINT sessions_audience_known CHECK (audience IN ('PAGES', 'APPROVALS')),
    CONSTRAINT sessions_bounded CHECK (
        length(device) <= 400 AND length(address) <= 64 AND wrong_codes BETWEEN 0 AND 100 AND expires_at > created_at)
);
CREATE INDEX sessions_of_account ON sessions (account_id, created_at) WHERE state <> 'ENDED';
CREATE INDEX sessions_of_member ON sessions (member_id) WHERE state <> 'ENDED';
CREATE INDEX sessions_ended_at ON sessions (ended_at) WHERE state = 'ENDED';
SELECT coffer_shared('sessions', '',
    'SELECT, INSERT, DELETE,'
        ' UPDATE (hash, state, member_id, last_seen_at, factor, factor_at, wrong_codes, ended_at, end_reason)');
SELECT coffer_hide('sessions',
    'session_id, account_id, state, member_id, device, address, created_at, last_seen_at, expires_at, factor,'
        ' factor_at, ended_at, end_reason, audience');

-- An ended session never lives again, an open one never waits again, and the person of a session has
-- its account and access. Rules SIGN-2 and SIGN-11.
CREATE FUNCTION sessions_keep() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND (OLD.state = 'ENDED' OR OLD.state = 'OPEN' AND NEW.state NOT IN ('OPEN', 'ENDED')
        OR (NEW.session_id, NEW.account_id, NEW.device, NEW.address, NEW.created_at, NEW.expires_at, NEW.audience)
            IS DISTINCT FROM (OLD.session_id, OLD.account_id, OLD.device, OLD.address, OLD.created_at, OLD.expires_at,
                OLD.audience)
        OR NEW.state = OLD.state AND NEW.ended_at IS DISTINCT FROM OLD.ended_at) THEN
        RAISE EXCEPTION 'session % cannot go from % to %', OLD.session_id, OLD.state, NEW.state
            USING ERRCODE = 'check_violation', CONSTRAINT = 'sessions_fixed';
    END IF;
    -- A token is changed by a change of rights: a session that opens keeps no token that was in use before.
    IF TG_OP = 'UPDATE' AND NEW.state = 'OPEN' AND OLD.state <> 'OPEN' AND NEW.hash = OLD.hash THEN
        RAISE EXCEPTION 'session % opens with a new token', OLD.session_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'sessions_new_token';
    END IF;
    IF NEW.member_id IS NOT NULL AND (TG_OP = 'INSERT' OR NEW.member_id IS DISTINCT FROM OLD.member_id)
       AND NOT EXISTS (
        SELECT FROM people p
        WHERE p.user_id = NEW.member_id AND p.account_id = NEW.account_id AND p.ended_at IS NULL) THEN
        RAISE EXCEPTION 'person % is not of account %', NEW.member_id, NEW.account_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'sessions_member_fits';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER sessions_keep BEFORE INSERT OR UPDATE ON sessions FOR EACH ROW EXECUTE FUNCTION sessions_keep();

-- A change of roles, and the end of access, ends the person's sessions in the same transaction. Rule
-- SIGN-11.
CREATE FUNCTION person_sessions_ended() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    person text := CASE TG_TABLE_NAME WHEN 'people' THEN to_jsonb(NEW) ->> 'user_id' END;
BEGIN
    IF EXISTS (
        SELECT FROM sessions s
        WHERE s.state <> 'ENDED' AND (s.member_id = person OR TG_TABLE_NAME = 'operators' AND s.account_id = OLD.account_id)) THEN
        RAISE EXCEPTION 'a session of the person still has the rights of before'
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_TABLE_NAME || '_sessions_ended';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER people_sessions_ended AFTER UPDATE ON people DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (OLD.roles <> NEW.roles OR OLD.ended_at IS DISTINCT FROM NEW.ended_at)
    EXECUTE FUNCTION person_sessions_ended();
CREATE CONSTRAINT TRIGGER operators_sessions_ended AFTER UPDATE ON operators DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (OLD.roles <> NEW.roles OR OLD.ended_at IS DISTINCT FROM NEW.ended_at)
    EXECUTE FUNCTION person_sessions_ended();

-- A challenge for a passkey. It holds for one answer: the answer deletes it.
CREATE TABLE passkey_challenges (
    hash       bytea PRIMARY KEY, -- SHA-256 of the challenge
    side       text NOT NULL,
    purpose    text NOT NULL,
    session_id text,  -- compared, and no foreign key: the row lives five minutes
    act        bytea, -- SHA-256 of the act, of the purpose ACT
    expires_at timestamptz NOT NULL,
    CONSTRAINT passkey_challenges_sha256 CHECK (length(hash) = 32 AND length(act) = 32),
    CONSTRAINT passkey_challenges_purpose_known CHECK (
        side IN ('MEMBER', 'OPERATOR') AND purpose IN ('SIGN_IN', 'ENROL', 'STEP_UP', 'ACT')
        AND (purpose = 'SIGN_IN') = (session_id IS NULL) AND (purpose = 'ACT') = (act IS NOT NULL))
);
CREATE INDEX passkey_challenges_expire ON passkey_challenges (expires_at);
SELECT coffer_shared('passkey_challenges', '', 'SELECT, INSERT, DELETE');
SELECT coffer_hide('passkey_challenges', 'side, purpose, session_id, expires_at');

-- A device that signed in to an account before, by the SHA-256 of its cookie, with its own budget of
-- failures.
CREATE TABLE known_devices (
    hash         bytea NOT NULL,
    account_id   text NOT NULL,
    created_at   timestamptz NOT NULL,
    last_used_at timestamptz NOT NULL,
    window_at    timestamptz NOT NULL, -- when the window of its failures began
    failures     integer NOT NULL DEFAULT 0,
    CONSTRAINT known_devices_pkey PRIMARY KEY (hash, account_id),
    CONSTRAINT known_devices_account FOREIGN KEY (account_id) REFERENCES accounts,
    CONSTRAINT known_devices_sha256 CHECK (length(hash) = 32),
    CONSTRAINT known_devices_failures_counted CHECK (failures >= 0)
);
CREATE INDEX known_devices_of_account ON known_devices (account_id);
CREATE INDEX known_devices_used ON known_devices (last_used_at);
SELECT coffer_shared('known_devices', '', 'SELECT, INSERT, DELETE, UPDATE (hash, last_used_at, window_at, failures)');
SELECT coffer_hide('known_devices', 'account_id, created_at, last_used_at, failures');

-- A mailed link that makes a device known.
CREATE TABLE device_links (
    hash       bytea PRIMARY KEY,
    account_id text NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    CONSTRAINT device_links_account FOREIGN KEY (account_id) REFERENCES accounts,
    CONSTRAINT device_links_sha256 CHECK (length(hash) = 32),
    CONSTRAINT device_links_expire CHECK (expires_at > created_at)
);
CREATE INDEX device_links_of_account ON device_links (account_id, created_at);
CREATE INDEX device_links_expires ON device_links (expires_at);
SELECT coffer_shared('device_links', '', 'SELECT, INSERT, DELETE');
SELECT coffer_hide('device_links', 'account_id, created_at, expires_at');

-- Failures of unknown devices in a window. The key is the SHA-256 of what is counted: an e-mail and a
-- network, a network, or an e-mail. It exists whether the e-mail has an account or not.
CREATE TABLE sign_in_failures (
    key       bytea PRIMARY KEY,
    window_at timestamptz NOT NULL,
    failures  integer NOT NULL,
    CONSTRAINT sign_in_failures_sha256 CHECK (length(key) = 32),
    CONSTRAINT sign_in_failures_counted CHECK (failures >= 0)
);
CREATE INDEX sign_in_failures_window ON sign_in_failures (window_at);
SELECT coffer_shared('sign_in_failures', '', 'SELECT, INSERT, DELETE, UPDATE (window_at, failures)');
SELECT coffer_hide('sign_in_failures', 'window_at, failures');
