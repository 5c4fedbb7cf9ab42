package solana

import (
	"bytes"
	"fmt"
	"math"
	"strings"

	"github.com/cofferpay/coffer/internal/chain"
)

// accountsMax is more accounts than any version of a transaction can name.
const accountsMax = 256

// timeMax is a time, in Unix seconds, that is not yet.
const timeMax = 1 << 40

// A header is what a block says of itself.
type header struct {
	hash, parent string // parent is the hash of the block before
	parentSlot   uint64 // where the block before is
	time         int64  // Unix seconds; 0 when the block does not say
}

// A tx is a transaction as a block tells it: which accounts it names, what each of
// them held before and after, and the same for tokens. Its slices are those of the
// block and are used again for the next transaction.
type tx struct {
	signature []byte
	accounts  [][]byte // the payer of the fee is the first
	failed    bool
	fee       uint64 // as the node says; see paid
	pre, post []uint64
	// Token balances name accounts by their place in accounts.
	preTokens, postTokens []holding
	isToken               []bool // whether the account of that place is for a token
	paid                  uint64 // what the payer was charged

	loaded [2][][]byte // accounts out of lookup tables: written, read
	seen   seen
}

// A holding is what a token account holds.
type holding struct {
	account              int
	mint, owner, program []byte
	units                uint64
}

// seen are the members that a transaction has to have, each once.
type seen uint

const (
	seenSignatures seen = 1 << iota
	seenAccounts
	seenErr
	seenFee
	seenPre
	seenPost
	seenPreTokens
	seenPostTokens
	seenVersion
	seenLoaded
	seenMeta
	seenTransaction
	seenAll = seenSignatures | seenAccounts | seenErr | seenFee | seenPre | seenPost |
		seenPreTokens | seenPostTokens | seenVersion | seenMeta | seenTransaction
)

func (t *tx) saw(s *scanner, m seen) {
	if t.seen&m != 0 {
		s.fail("a member that is there twice")
	}
	t.seen |= m
}

// decode reads a block as a provider gave it and shows each of its transactions. The
// forms "accounts" and "full" of getBlock are taken, the latter with accounts as
// strings or as objects. Whatever is missing, strange or twice is ErrUndecodable, so
// that an empty block is one that says so.
func decode(raw []byte, visit func(*tx) error) (header, error) {
	s := newScanner(raw)
	h, err := readBlock(s, visit)
	if err == nil {
		err = s.end()
	}
	if err != nil {
		return header{}, fmt.Errorf("%w: %w", chain.ErrUndecodable, err)
	}
	return h, nil
}

func readBlock(s *scanner, visit func(*tx) error) (header, error) {
	var h header
	var t tx
	const hash, parent, slot, transactions, times = 1, 2, 4, 8, 16
	had := 0
	once := func(m int) {
		if had&m != 0 {
			s.fail("a member that is there twice")
		}
		had |= m
	}
	s.expect('{')
	for n := 0; s.more('}', &n); {
		switch string(s.member()) {
		case "blockhash":
			once(hash)
			h.hash = string(s.word())
		case "previousBlockhash":
			once(parent)
			h.parent = string(s.word())
		case "parentSlot":
			once(slot)
			h.parentSlot = s.number()
		case "blockTime":
			once(times)
			if !s.null() {
				h.time = int64(min(s.number(), timeMax))
			}
		case "transactions":
			once(transactions)
			s.expect('[')
			for n := 0; s.more(']', &n); {
				if err := t.read(s); err != nil {
					return h, fmt.Errorf("transaction %d: %w", n-1, err)
				}
				if visit == nil {
					continue
				}
				if err := visit(&t); err != nil {
					return h, fmt.Errorf("transaction %d: %w", n-1, err)
				}
			}
		default:
			s.skip()
		}
	}
	switch {
	case s.err != nil:
		return h, s.err
	case h.hash == "" || h.parent == "" || had&slot == 0:
		return h, fmt.Errorf("it does not say its hash, or which block it stands on")
	case visit != nil && had&transactions == 0:
		return h, fmt.Errorf("it has no list of transactions")
	}
	return h, nil
}

// read reads one transaction and checks that its parts fit.
func (t *tx) read(s *scanner) error {
	*t = tx{
		accounts: t.accounts[:0], pre: t.pre[:0], post: t.post[:0],
		preTokens: t.preTokens[:0], postTokens: t.postTokens[:0], isToken: t.isToken[:0],
		loaded: [2][][]byte{t.loaded[0][:0], t.loaded[1][:0]},
	}
	s.expect('{')
	for n := 0; s.more('}', &n); {
		switch string(s.member()) {
		case "transaction":
			t.saw(s, seenTransaction)
			t.readNames(s)
		case "meta":
			t.saw(s, seenMeta)
			t.readMeta(s)
		case "version":
			t.saw(s, seenVersion)
			switch v := s.skip(); string(v) {
			case `"legacy"`, "0", "1":
			default:
				if s.err == nil {
					return fmt.Errorf("it has version %.20q", v)
				}
			}
		default:
			s.skip()
		}
	}
	if s.err != nil {
		return s.err
	}
	if t.seen&seenAll != seenAll {
		return fmt.Errorf("it lacks some of what is needed: %b of %b", t.seen, seenAll)
	}
	t.accounts = append(append(t.accounts, t.loaded[0]...), t.loaded[1]...)
	return t.fit()
}

// readNames reads who signed and which accounts are named.
func (t *tx) readNames(s *scanner) {
	s.expect('{')
	for n := 0; s.more('}', &n); {
		switch string(s.member()) {
		case "signatures":
			t.saw(s, seenSignatures)
			s.expect('[')
			for n := 0; s.more(']', &n); {
				if w := s.word(); t.signature == nil {
					t.signature = w
				}
			}
		case "accountKeys":
			t.saw(s, seenAccounts)
			t.accounts = s.accounts(t.accounts)
		case "message":
			s.expect('{')
			for n := 0; s.more('}', &n); {
				if string(s.member()) != "accountKeys" {
					s.skip()
					continue
				}
				t.saw(s, seenAccounts)
				t.accounts = s.accounts(t.accounts)
			}
		default:
			s.skip()
		}
	}
}

// accounts reads a list of addresses, or of objects with an address.
func (s *scanner) accounts(into [][]byte) [][]byte {
	s.expect('[')
	for n := 0; s.more(']', &n); {
		if len(into) >= accountsMax {
			s.fail("more accounts than there can be")
			return into
		}
		if s.peek() == '"' {
			into = append(into, s.word())
			continue
		}
		var key []byte
		s.expect('{')
		for n := 0; s.more('}', &n); {
			if string(s.member()) == "pubkey" && key == nil {
				key = s.word()
			} else {
				s.skip()
			}
		}
		into = append(into, key)
	}
	return into
}

// readMeta reads what became of a transaction.
func (t *tx) readMeta(s *scanner) {
	s.expect('{')
	for n := 0; s.more('}', &n); {
		switch string(s.member()) {
		case "err":
			t.saw(s, seenErr)
			if !s.null() {
				t.failed = true
				s.skip()
			}
		case "fee":
			t.saw(s, seenFee)
			t.fee = s.number()
		case "preBalances":
			t.saw(s, seenPre)
			t.pre = s.numbers(t.pre)
		case "postBalances":
			t.saw(s, seenPost)
			t.post = s.numbers(t.post)
		case "preTokenBalances":
			t.saw(s, seenPreTokens)
			t.preTokens = s.holdings(t.preTokens)
		case "postTokenBalances":
			t.saw(s, seenPostTokens)
			t.postTokens = s.holdings(t.postTokens)
		case "loadedAddresses":
			t.saw(s, seenLoaded)
			if s.null() {
				continue
			}
			had := 0
			s.expect('{')
			for n := 0; s.more('}', &n); {
				part := 0
				switch string(s.member()) {
				case "writable":
				case "readonly":
					part = 1
				default:
					s.skip()
					continue
				}
				if had&(1<<part) != 0 {
					s.fail("a member that is there twice")
				}
				had |= 1 << part
				t.loaded[part] = s.accounts(t.loaded[part])
			}
		default:
			s.skip()
		}
	}
}

func (s *scanner) numbers(into []uint64) []uint64 {
	s.expect('[')
	for n := 0; s.more(']', &n); {
		into = append(into, s.number())
	}
	return into
}

// holdings reads token balances. Those of other programs than the two token programs
// are none.
func (s *scanner) holdings(into []holding) []holding {
	s.expect('[')
	for n := 0; s.more(']', &n); {
		h := holding{account: -1}
		whole := false
		s.expect('{')
		for n := 0; s.more('}', &n); {
			switch string(s.member()) {
			case "accountIndex":
				h.account = int(min(s.number(), accountsMax))
			case "mint":
				h.mint = s.word()
			case "owner":
				h.owner = s.word()
			case "programId":
				h.program = s.word()
			case "uiTokenAmount":
				s.expect('{')
				for n := 0; s.more('}', &n); {
					if string(s.member()) == "amount" && !whole {
						h.units, whole = s.quantity(), true
					} else {
						s.skip()
					}
				}
			default:
				s.skip()
			}
		}
		if h.account < 0 || !whole || len(h.mint) == 0 || len(h.owner) == 0 || len(h.program) == 0 {
			s.fail("a token balance that lacks its account, mint, owner, program or amount")
			return into
		}
		into = append(into, h)
	}
	return into
}

// lamportsMax is more than there are. Sums below it fit a signed number.
const lamportsMax = math.MaxInt64

// fit checks that the parts of a transaction fit one another and finds out what it
// cost. Lamports are neither made nor lost in a transaction, so what all its accounts
// hold less is what was charged, whatever the node calls the fee.
func (t *tx) fit() error {
	n := len(t.accounts)
	switch {
	case n == 0 || len(t.signature) == 0:
		return fmt.Errorf("nobody signed it")
	case n > accountsMax || len(t.pre) != n || len(t.post) != n:
		return fmt.Errorf("it names %d accounts and has %d balances before and %d after", n, len(t.pre), len(t.post))
	}
	var before, after uint64
	for i, a := range t.accounts {
		if len(a) == 0 {
			return fmt.Errorf("account %d has no address", i)
		}
		if t.pre[i] > lamportsMax || t.post[i] > lamportsMax {
			return fmt.Errorf("account %d has more lamports than there are", i)
		}
		if before, after = before+t.pre[i], after+t.post[i]; before > lamportsMax || after > lamportsMax {
			return fmt.Errorf("its accounts have more lamports than there are")
		}
		t.isToken = append(t.isToken, false)
	}
	if before < after || before-after < t.fee {
		return fmt.Errorf("its accounts have %d lamports before and %d after, for a fee of %d", before, after, t.fee)
	}
	t.paid = before - after
	if t.pre[0] < t.paid {
		return fmt.Errorf("it cost %d lamports, and its payer had %d", t.paid, t.pre[0])
	}
	for _, side := range [2]struct {
		list     *[]holding
		lamports []uint64
	}{{&t.preTokens, t.pre}, {&t.postTokens, t.post}} {
		var had [accountsMax]bool
		kept := (*side.list)[:0]
		for _, h := range *side.list {
			if h.account >= n || had[h.account] {
				return fmt.Errorf("a token balance is of account %d of %d, or there twice", h.account, n)
			}
			had[h.account] = true
			t.isToken[h.account] = true
			// Without lamports there is no account, and nothing in it (surfpool 1.5.0 goes on
			// telling what was in one that was closed).
			if side.lamports[h.account] > 0 && isTokenProgram(h.program) {
				kept = append(kept, h)
			}
		}
		*side.list = kept
	}
	return nil
}

const (
	tokenProgram     = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"
	token2022Program = "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb"
)

// The mints of wrapped SOL.
const (
	wrappedMint     = "So11111111111111111111111111111111111111112"
	wrappedMint2022 = "9pan9bMn5HatX4EJdBwg9VgCa7Uz5HL8N1m5D3NdXej9"
)

func isWrapped(m []byte) bool { return string(m) == wrappedMint || string(m) == wrappedMint2022 }

func isTokenProgram(p []byte) bool { return string(p) == tokenProgram || string(p) == token2022Program }

func unitsIn(list []holding, account int, mint, owner []byte) uint64 {
	for i := range list {
		if h := &list[i]; h.account == account && bytes.Equal(h.mint, mint) && bytes.Equal(h.owner, owner) {
			return h.units
		}
	}
	return 0
}

// before is what an account held of a mint for an owner before a transaction.
func (t *tx) before(account int, mint, owner []byte) uint64 {
	return unitsIn(t.preTokens, account, mint, owner)
}

// after is what it holds of it then.
func (t *tx) after(account int, mint, owner []byte) uint64 {
	return unitsIn(t.postTokens, account, mint, owner)
}

// names gives one string for equal bytes, which are those of an answer that shall not
// be kept for a few addresses.
type names map[string]string

func (n names) of(b []byte) string {
	if s, ok := n[string(b)]; ok {
		return s
	}
	s := strings.Clone(string(b))
	n[s] = s
	return s
}
