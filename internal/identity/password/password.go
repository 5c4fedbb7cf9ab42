// Package password checks and hashes passwords.
//
// It bounds how many hashes are computed at once, because each takes memory and time that a stranger
// can ask for. It never logs, stores or returns a password. It has no I/O, so a crash leaves nothing.
package password

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/subtle"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"
	"golang.org/x/text/unicode/norm"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

const (
	charsMin   = 12
	charsMax   = 128
	bytesMax   = 4 * charsMax * 18 // NFKC makes at most 18 characters of one
	saltBytes  = 16
	hashBytes  = 32
	waitMax    = 2 * time.Second // for one of the computations that run at once
	memoryMax  = 1 << 20         // KiB, of a stored hash
	passesMax  = 64
	atOnce     = 4
	memoryKiB  = 19 << 10
	passes     = 2
	threads    = 1
	phcPrefix  = "$argon2id$v=19$"
	phcPattern = phcPrefix + "m=%d,t=%d,p=%d$%s"
)

// commonPasswords is the list that Django's CommonPasswordValidator uses: Royce Williams' list of the
// 20,000 commonest passwords, in lower case, sorted. See NOTICE.
//
//go:embed common.txt.gz
var commonPasswords []byte

// loadCommon reads the list. Shorter passwords than charsMin are refused in any case.
var loadCommon = sync.OnceValue(func() map[string]bool {
	r, err := gzip.NewReader(bytes.NewReader(commonPasswords))
	if err != nil {
		panic("password: the embedded list is damaged: " + err.Error())
	}
	text, err := io.ReadAll(r)
	if err != nil {
		panic("password: the embedded list is damaged: " + err.Error())
	}
	list := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		list[strings.TrimSpace(line)] = true
	}
	return list
})

// Check refuses a password that is too short, too long or among the commonest, compared after NFKC
// and without letter case. Error: INVALID_REQUEST. Rule SIGN-3.
func Check(pass seal.Secret, param string) error {
	refusal := func(reason string, args ...any) error {
		return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten, reason, args...).WithParam(param)
	}
	text := pass.Reveal()
	if !utf8.ValidString(text) || len(text) > bytesMax {
		return refusal("A password has %d to %d characters.", charsMin, charsMax)
	}
	text = norm.NFKC.String(text)
	if n := utf8.RuneCountInString(text); n < charsMin || n > charsMax {
		return refusal("A password has %d to %d characters, and this one has %d.", charsMin, charsMax, n)
	}
	if strings.ContainsFunc(text, unicode.IsControl) {
		return refusal("The password has a character that a keyboard does not write.")
	}
	if loadCommon()[strings.ToLower(text)] {
		return refusal("This password is one of the commonest, which attackers try first.")
	}
	return nil
}

// Params are the costs of Argon2id. Zero fields have their defaults.
type Params struct {
	MemoryKiB   uint32 // 19 MiB
	Passes      uint32 // 2
	Parallelism uint8  // 1
	AtOnce      int    // 4 computations
}

// Hasher computes hashes with Argon2id, a few at once. It is safe for concurrent use.
type Hasher struct {
	params   Params
	slots    chan struct{}
	dummy    string
	computed atomic.Int64
}

// NewHasher makes a Hasher. A process has one, because its limit is that of the process.
func NewHasher(p Params) *Hasher {
	if p.MemoryKiB == 0 {
		p.MemoryKiB = memoryKiB
	}
	if p.Passes == 0 {
		p.Passes = passes
	}
	if p.Parallelism == 0 {
		p.Parallelism = threads
	}
	if p.AtOnce == 0 {
		p.AtOnce = atOnce
	}
	h := &Hasher{params: p, slots: make(chan struct{}, p.AtOnce)}
	h.dummy = h.compute(rand.Text())
	return h
}

// Count returns how many hashes were computed.
func (h *Hasher) Count() int64 { return h.computed.Load() }

// Hash returns the hash of a password with a new salt, as a PHC string. Error: UNAVAILABLE if too many
// are being computed.
func (h *Hasher) Hash(ctx context.Context, pass seal.Secret) (string, error) {
	release, err := h.acquireSlot(ctx)
	if err != nil {
		return "", err
	}
	defer release()
	return h.compute(normalize(pass)), nil
}

// Verify reports whether a password has a hash. An empty hash is that of an unknown account: it
// costs the same, and no password has it. Error: UNAVAILABLE if too many are being computed. Rule
// SIGN-1.
func (h *Hasher) Verify(ctx context.Context, hash string, pass seal.Secret) (bool, error) {
	isUnknown := hash == ""
	if isUnknown {
		hash = h.dummy
	}
	parsed, err := parsePHC(hash)
	if err != nil {
		return false, err
	}
	release, err := h.acquireSlot(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	h.computed.Add(1)
	sum := argon2.IDKey([]byte(normalize(pass)), parsed.salt, parsed.passes, parsed.memoryKiB, parsed.parallelism,
		uint32(len(parsed.sum)))
	isEqual := subtle.ConstantTimeCompare(sum, parsed.sum) == 1
	return isEqual && !isUnknown, nil
}

// acquireSlot waits for one of the computations that run at once. Rule SIGN-3.
func (h *Hasher) acquireSlot(ctx context.Context) (release func(), err error) {
	timer := time.NewTimer(waitMax)
	defer timer.Stop()
	select {
	case h.slots <- struct{}{}:
		return func() { <-h.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-timer.C:
		return nil, fault.New(fault.Unavailable, fault.CodeUnavailable, fault.NothingWritten,
			"Too many passwords are being checked at this moment.").WithAdvice("Try again in a few seconds.")
	}
}

// normalize returns the bytes that are hashed. A text that Check refuses is cut, since it is no
// password of an account.
func normalize(pass seal.Secret) string {
	text := pass.Reveal()
	return norm.NFKC.String(text[:min(len(text), bytesMax)])
}

func (h *Hasher) compute(text string) string {
	h.computed.Add(1)
	var salt [saltBytes]byte
	_, _ = rand.Read(salt[:]) // never fails: the program ends when there is no randomness
	p := h.params
	sum := argon2.IDKey([]byte(text), salt[:], p.Passes, p.MemoryKiB, p.Parallelism, hashBytes)
	return fmt.Sprintf(phcPattern, p.MemoryKiB, p.Passes, p.Parallelism,
		base64.RawStdEncoding.EncodeToString(salt[:])+"$"+base64.RawStdEncoding.EncodeToString(sum))
}

type phc struct {
	memoryKiB, passes uint32
	parallelism       uint8
	salt, sum         []byte
}

var errNoPHC = errors.New("the stored password hash is no PHC string of Argon2id")

// parsePHC reads a stored hash. It refuses costs that would stop the process.
func parsePHC(text string) (phc, error) {
	var p phc
	var tail string
	if n, err := fmt.Sscanf(text, phcPattern, &p.memoryKiB, &p.passes, &p.parallelism, &tail); err != nil || n != 4 {
		return phc{}, errNoPHC
	}
	salt, sum, _ := strings.Cut(tail, "$")
	var saltErr, sumErr error
	p.salt, saltErr = base64.RawStdEncoding.DecodeString(salt)
	p.sum, sumErr = base64.RawStdEncoding.DecodeString(sum)
	if saltErr != nil || sumErr != nil || len(p.salt) < 8 || len(p.sum) != hashBytes || p.memoryKiB > memoryMax ||
		p.passes == 0 || p.passes > passesMax || p.parallelism == 0 || p.memoryKiB < 8*uint32(p.parallelism) {
		return phc{}, errNoPHC
	}
	return p, nil
}
