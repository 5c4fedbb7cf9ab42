package signin_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-webauthn/webauthn/protocol/webauthncbor"
	"github.com/pquerna/otp/totp"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/account"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/identity/password"
	"github.com/cofferpay/coffer/internal/identity/session"
	"github.com/cofferpay/coffer/internal/identity/signin"
	"github.com/cofferpay/coffer/internal/platform/mail"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

const (
	site     = "localhost"
	origin   = "http://localhost:8080"
	goodPass = "correct horse battery"
)

var terminal = audit.Operator("cli")

// clock is a test's time. It moves only when the test says so.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// mailbox is a Mailer. A transaction that runs twice leaves its mails twice, so tests look at the last.
type mailbox struct {
	mu   sync.Mutex
	sent []mail.Message
}

func (m *mailbox) Queue(_ context.Context, _ pg.Tx, message mail.Message) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sent = append(m.sent, message)
	return nil
}

func (m *mailbox) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.sent)
}

func (m *mailbox) last(t *testing.T) mail.Message {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.sent) == 0 {
		t.Fatal("no mail was sent")
	}
	return m.sent[len(m.sent)-1]
}

// link returns the token of the last mail's link.
func (m *mailbox) link(t *testing.T, prefix string) seal.Secret {
	t.Helper()
	text := m.last(t).Text
	_, after, ok := strings.Cut(text, prefix)
	if !ok {
		t.Fatalf("the mail has no link: %s", text)
	}
	token, _, _ := strings.Cut(after, "\n")
	return seal.NewSecret(token)
}

type env struct {
	t      *testing.T
	db     *pg.DB
	clock  *clock
	mails  *mailbox
	hasher *password.Hasher
	keys   *seal.Keyset
	*signin.Service
	operators *signin.Service
	org       org.Organization
}

func newEnv(t *testing.T, change ...func(*signin.Config)) *env {
	t.Helper()
	c := &clock{now: time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)}
	return newEnvOn(t, pgtest.NewWithClock(t, c.Now), c, change...)
}

func newEnvOn(t *testing.T, db *pg.DB, c *clock, change ...func(*signin.Config)) *env {
	t.Helper()
	path := filepath.Join(t.TempDir(), "seal.key")
	if err := seal.CreateKeyset(path); err != nil {
		t.Fatal(err)
	}
	keys, err := seal.OpenKeyset(path)
	if err != nil {
		t.Fatal(err)
	}
	e := &env{
		t: t, db: db, clock: c, mails: &mailbox{}, keys: keys,
		hasher: password.NewHasher(password.Params{MemoryKiB: 8, Passes: 1}),
	}
	conf := signin.Config{
		DB: db, Keys: keys, Hasher: e.hasher, Mailer: e.mails, Side: account.MemberSide, Site: site, Origin: origin,
		Issuer: "Coffer", InvitationURL: origin + "/invitation/", DeviceURL: origin + "/device/",
		Restriction: 24 * time.Hour,
	}
	for _, f := range change {
		f(&conf)
	}
	if e.Service, err = signin.NewService(conf); err != nil {
		t.Fatal(err)
	}
	conf.Side, conf.Origin = account.OperatorSide, "http://localhost:8081"
	conf.InvitationURL, conf.DeviceURL = conf.Origin+"/invitation/", conf.Origin+"/device/"
	if e.operators, err = signin.NewService(conf); err != nil {
		t.Fatal(err)
	}
	if e.org, _, err = org.Create(t.Context(), db, "Acme"); err != nil {
		t.Fatal(err)
	}
	return e
}

// client is a browser in some network. Each number is another network.
func client(network int) signin.Client {
	return signin.Client{
		Addr:      netip.AddrFrom4([4]byte{10, byte(network >> 8), byte(network), 7}),
		UserAgent: fmt.Sprintf("Browser/%d", network),
	}
}

// person has an account and an authenticator app.
type person struct {
	e      *env
	email  string
	member member.Member
	secret seal.Secret
	client signin.Client
	open   session.Session
	token  seal.Secret
}

func must[T any](t *testing.T) func(value T, err error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func (e *env) add(orgID, email string, roles ...identity.Role) member.Member {
	e.t.Helper()
	var p member.Member
	if err := e.db.InSystem(e.t.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		p, err = member.Add(ctx, tx, terminal, orgID, email, "Person "+email, roles...)
		return err
	}); err != nil {
		e.t.Fatal(err)
	}
	return p
}

// accept makes the account of a member, with a session that must enrol.
func (e *env) accept(orgID, email string, c signin.Client) signin.Result {
	e.t.Helper()
	_, token, err := signin.InviteFromTerminal(e.t.Context(), e.db, terminal, orgID, email)
	if err != nil {
		e.t.Fatal(err)
	}
	return must[signin.Result](e.t)(
		e.AcceptInvitation(e.t.Context(), c, token, "Person "+email, "Europe/Berlin", seal.NewSecret(goodPass)))
}

// person adds a person with an account, TOTP and an open session.
func (e *env) person(email string, network int, roles ...identity.Role) *person {
	e.t.Helper()
	p := &person{e: e, email: email, member: e.add(e.org.ID, email, roles...), client: client(network)}
	made := e.accept(e.org.ID, email, p.client)
	p.take(made)
	enrolment := must[signin.TOTPEnrolment](e.t)(e.StartTOTP(e.t.Context(), p.open))
	p.secret = enrolment.Secret
	p.take(must[signin.Result](e.t)(e.ConfirmTOTP(e.t.Context(), p.client, p.open, p.code())))
	e.clock.advance(time.Minute) // so that the next code is unused
	return p
}

func (p *person) take(made signin.Result) {
	p.open = made.Session
	if !made.Token.IsEmpty() {
		p.token = made.Token
		p.open = must[session.Session](p.e.t)(p.e.Authenticate(p.e.t.Context(), made.Token))
	}
	if !made.Device.IsEmpty() {
		p.client.Device = made.Device
	}
}

func (p *person) code() seal.Secret { return p.e.code(p.secret) }

func (e *env) code(secret seal.Secret) seal.Secret {
	e.t.Helper()
	return seal.NewSecret(must[string](e.t)(totp.GenerateCode(secret.Reveal(), e.clock.Now())))
}

// signIn signs in with password and code.
func (p *person) signIn(c signin.Client) (signin.Result, error) {
	ctx := p.e.t.Context()
	started, err := p.e.StartWithPassword(ctx, c, p.email, seal.NewSecret(goodPass))
	if err != nil {
		return signin.Result{}, err
	}
	sess, err := p.e.Authenticate(ctx, started.Token)
	if err != nil {
		return signin.Result{}, err
	}
	return p.e.ConfirmFactor(ctx, c, sess, signin.Proof{Code: p.code()})
}

// operator adds an operator with an account, TOTP and an open session on the operators' side.
func (e *env) operator(email string, roles ...operator.Role) (session.Session, seal.Secret, operator.Person) {
	e.t.Helper()
	ctx := e.t.Context()
	made, token, err := e.operators.InviteOperator(ctx, terminal, email, "Operator", roles, false)
	if err != nil {
		e.t.Fatal(err)
	}
	accepted := must[signin.Result](e.t)(
		e.operators.AcceptInvitation(ctx, client(9), token, "Operator", "", seal.NewSecret(goodPass)))
	sess := must[session.Session](e.t)(e.operators.Authenticate(ctx, accepted.Token))
	enrolment := must[signin.TOTPEnrolment](e.t)(e.operators.StartTOTP(ctx, sess))
	opened := must[signin.Result](e.t)(e.operators.ConfirmTOTP(ctx, client(9), sess, e.code(enrolment.Secret)))
	e.clock.advance(time.Minute)
	return must[session.Session](e.t)(e.operators.Authenticate(ctx, opened.Token)), enrolment.Secret,
		operator.Person{ID: made.OperatorID}
}

// query reads one value as the owner of the database.
func (e *env) query(sql string, args ...any) string {
	e.t.Helper()
	var text string
	if err := pgtest.OwnerPool(e.t, e.db).QueryRow(e.t.Context(), sql, args...).Scan(&text); err != nil {
		e.t.Fatalf("%s: %v", sql, err)
	}
	return text
}

// authenticator is a passkey in software.
type authenticator struct {
	key        *ecdsa.PrivateKey
	id, handle []byte
	counter    uint32
	origin     string
	flags      byte
}

const (
	userPresent  = 1
	userVerified = 4
	hasAttested  = 64
)

func newAuthenticator(t *testing.T) *authenticator {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id := make([]byte, 32)
	_, _ = rand.Read(id)
	return &authenticator{key: key, id: id, origin: origin, flags: userPresent | userVerified}
}

func (a *authenticator) data(attested []byte) []byte {
	sum := sha256.Sum256([]byte(site))
	flags := a.flags
	if attested != nil {
		flags |= hasAttested
	}
	a.counter++
	return append(binary.BigEndian.AppendUint32(append(sum[:], flags), a.counter), attested...)
}

func (a *authenticator) clientData(kind, challenge string) []byte {
	text, _ := json.Marshal(map[string]any{
		"type": kind, "challenge": challenge, "origin": a.origin, "crossOrigin": false,
	})
	return text
}

var b64 = base64.RawURLEncoding

// create answers the options of navigator.credentials.create.
func (a *authenticator) create(t *testing.T, options []byte) []byte {
	t.Helper()
	var o struct {
		PublicKey struct {
			Challenge string
			User      struct{ ID string }
		}
	}
	if err := json.Unmarshal(options, &o); err != nil {
		t.Fatal(err)
	}
	a.handle, _ = b64.DecodeString(o.PublicKey.User.ID)
	public, err := a.key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	cose, err := webauthncbor.Marshal(map[int]any{1: 2, 3: -7, -1: 1, -2: public[1:33], -3: public[33:]})
	if err != nil {
		t.Fatal(err)
	}
	attested := append(make([]byte, 16), binary.BigEndian.AppendUint16(nil, uint16(len(a.id)))...)
	attested = append(append(attested, a.id...), cose...)
	object, err := webauthncbor.Marshal(map[string]any{
		"fmt": "none", "attStmt": map[string]any{}, "authData": a.data(attested),
	})
	if err != nil {
		t.Fatal(err)
	}
	return a.answer(map[string]any{
		"clientDataJSON":    b64.EncodeToString(a.clientData("webauthn.create", o.PublicKey.Challenge)),
		"attestationObject": b64.EncodeToString(object),
	})
}

// get answers the options of navigator.credentials.get.
func (a *authenticator) get(t *testing.T, options []byte) []byte {
	t.Helper()
	var o struct{ PublicKey struct{ Challenge string } }
	if err := json.Unmarshal(options, &o); err != nil {
		t.Fatal(err)
	}
	data, clientData := a.data(nil), a.clientData("webauthn.get", o.PublicKey.Challenge)
	sum := sha256.Sum256(clientData)
	signed := sha256.Sum256(append(append([]byte{}, data...), sum[:]...))
	signature, err := ecdsa.SignASN1(rand.Reader, a.key, signed[:])
	if err != nil {
		t.Fatal(err)
	}
	return a.answer(map[string]any{
		"clientDataJSON": b64.EncodeToString(clientData), "authenticatorData": b64.EncodeToString(data),
		"signature": b64.EncodeToString(signature), "userHandle": b64.EncodeToString(a.handle),
	})
}

func (a *authenticator) answer(response map[string]any) []byte {
	text, _ := json.Marshal(map[string]any{
		"id": b64.EncodeToString(a.id), "rawId": b64.EncodeToString(a.id), "type": "public-key",
		"clientExtensionResults": map[string]any{}, "response": response,
	})
	return text
}
