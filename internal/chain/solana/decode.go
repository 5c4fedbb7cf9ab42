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

// timeMax is a time in the far future, in Unix seconds.
const timeMax = 1 << 40

// header is what a block says about itself.
type header struct {
	hash, parent string // parent is the hash of the block before
	parentSlot   uint64 // slot of the block before
	time         int64  // Unix seconds; 0 if the block has none
}

// tx is a transaction as a block reports it: the accounts that it names, what each of them held
// before and after, and the same for tokens. Its slices point into the block and are reused for the
// next transaction.
type tx struct {
	signature []byte
	accounts  [][]byte // the payer of the fee is the first
	failed    bool
	fee       uint64 // as the node says; see paid
	pre, post []uint64
	// Token balances name accounts by their index in accounts.
	preTokens, postTokens []holding
	isToken               []bool // whether the account at that index is a token account
	paid                  uint64 // what the payer was charged

	loaded  [2][][]byte // accounts from lookup tables: written, read
	members memberSet
}

// holding is what a token account holds.
type holding struct {
	account              int
	mint, owner, program []byte
	units                uint64
}

// memberSet is the set of the JSON members that a transaction has to have, each once.
type memberSet uint

const (
	seenSignatures memberSet = 1 << iota
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

func (t *tx) markSeen(s *scanner, m memberSet) {
	if t.members&m != 0 {
		s.fail("a field that is there twice")
	}
	t.members |= m
}

// decodeBlock decodes a block as a provider gave it and passes each of its transactions to visit.
// It accepts the forms "accounts" and "full" of getBlock, the latter with accounts as strings or as
// objects. Everything that is missing, unexpected or repeated is ErrUndecodable, so a block is
// empty only if it says so.
func decodeBlock(raw []byte, visit func(*tx) error) (header, error) {
	s := newScanner(raw)
	h, err := readBlock(s, visit)
	if err == nil {
		err = s.expectEnd()
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
	found := 0
	markOnce := func(m int) {
		if found&m != 0 {
			s.fail("a field that is there twice")
		}
		found |= m
	}
	s.expectByte('{')
	for n := 0; s.hasNext('}', &n); {
		switch string(s.readMember()) {
		case "blockhash":
			markOnce(hash)
			h.hash = string(s.readWord())
		case "previousBlockhash":
			markOnce(parent)
			h.parent = string(s.readWord())
		case "parentSlot":
			markOnce(slot)
			h.parentSlot = s.readNumber()
		case "blockTime":
			markOnce(times)
			if !s.skipNull() {
				h.time = int64(min(s.readNumber(), timeMax))
			}
		case "transactions":
			markOnce(transactions)
			s.expectByte('[')
			for n := 0; s.hasNext(']', &n); {
				if err := t.readTx(s); err != nil {
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
			s.skipValue()
		}
	}
	switch {
	case s.err != nil:
		return h, s.err
	case h.hash == "" || h.parent == "" || found&slot == 0:
		return h, fmt.Errorf("it does not have its hash or its parent")
	case visit != nil && found&transactions == 0:
		return h, fmt.Errorf("it has no list of transactions")
	}
	return h, nil
}

// readTx reads one transaction and checks that its parts fit.
func (t *tx) readTx(s *scanner) error {
	*t = tx{
		accounts: t.accounts[:0], pre: t.pre[:0], post: t.post[:0],
		preTokens: t.preTokens[:0], postTokens: t.postTokens[:0], isToken: t.isToken[:0],
		loaded: [2][][]byte{t.loaded[0][:0], t.loaded[1][:0]},
	}
	s.expectByte('{')
	for n := 0; s.hasNext('}', &n); {
		switch string(s.readMember()) {
		case "transaction":
			t.markSeen(s, seenTransaction)
			t.readNames(s)
		case "meta":
			t.markSeen(s, seenMeta)
			t.readMeta(s)
		case "version":
			t.markSeen(s, seenVersion)
			switch v := s.skipValue(); string(v) {
			case `"legacy"`, "0", "1":
			default:
				if s.err == nil {
					return fmt.Errorf("it has version %.20q", v)
				}
			}
		default:
			s.skipValue()
		}
	}
	if s.err != nil {
		return s.err
	}
	if t.members&seenAll != seenAll {
		return fmt.Errorf("it lacks some of what is needed: %b of %b", t.members, seenAll)
	}
	t.accounts = append(append(t.accounts, t.loaded[0]...), t.loaded[1]...)
	return t.checkConsistency()
}

// readNames reads the signatures and the accounts of a transaction.
func (t *tx) readNames(s *scanner) {
	s.expectByte('{')
	for n := 0; s.hasNext('}', &n); {
		switch string(s.readMember()) {
		case "signatures":
			t.markSeen(s, seenSignatures)
			s.expectByte('[')
			for n := 0; s.hasNext(']', &n); {
				if w := s.readWord(); t.signature == nil {
					t.signature = w
				}
			}
		case "accountKeys":
			t.markSeen(s, seenAccounts)
			t.accounts = s.readAccounts(t.accounts)
		case "message":
			s.expectByte('{')
			for n := 0; s.hasNext('}', &n); {
				if string(s.readMember()) != "accountKeys" {
					s.skipValue()
					continue
				}
				t.markSeen(s, seenAccounts)
				t.accounts = s.readAccounts(t.accounts)
			}
		default:
			s.skipValue()
		}
	}
}

// readAccounts reads a list of addresses, or of objects with an address.
func (s *scanner) readAccounts(list [][]byte) [][]byte {
	s.expectByte('[')
	for n := 0; s.hasNext(']', &n); {
		if len(list) >= accountsMax {
			s.fail("more accounts than there can be")
			return list
		}
		if s.peekByte() == '"' {
			list = append(list, s.readWord())
			continue
		}
		var key []byte
		s.expectByte('{')
		for n := 0; s.hasNext('}', &n); {
			if string(s.readMember()) == "pubkey" && key == nil {
				key = s.readWord()
			} else {
				s.skipValue()
			}
		}
		list = append(list, key)
	}
	return list
}

// readMeta reads the result of a transaction.
func (t *tx) readMeta(s *scanner) {
	s.expectByte('{')
	for n := 0; s.hasNext('}', &n); {
		switch string(s.readMember()) {
		case "err":
			t.markSeen(s, seenErr)
			if !s.skipNull() {
				t.failed = true
				s.skipValue()
			}
		case "fee":
			t.markSeen(s, seenFee)
			t.fee = s.readNumber()
		case "preBalances":
			t.markSeen(s, seenPre)
			t.pre = s.readNumbers(t.pre)
		case "postBalances":
			t.markSeen(s, seenPost)
			t.post = s.readNumbers(t.post)
		case "preTokenBalances":
			t.markSeen(s, seenPreTokens)
			t.preTokens = s.readHoldings(t.preTokens)
		case "postTokenBalances":
			t.markSeen(s, seenPostTokens)
			t.postTokens = s.readHoldings(t.postTokens)
		case "loadedAddresses":
			t.markSeen(s, seenLoaded)
			if s.skipNull() {
				continue
			}
			found := 0
			s.expectByte('{')
			for n := 0; s.hasNext('}', &n); {
				part := 0
				switch string(s.readMember()) {
				case "writable":
				case "readonly":
					part = 1
				default:
					s.skipValue()
					continue
				}
				if found&(1<<part) != 0 {
					s.fail("a field that is there twice")
				}
				found |= 1 << part
				t.loaded[part] = s.readAccounts(t.loaded[part])
			}
		default:
			s.skipValue()
		}
	}
}

func (s *scanner) readNumbers(list []uint64) []uint64 {
	s.expectByte('[')
	for n := 0; s.hasNext(']', &n); {
		list = append(list, s.readNumber())
	}
	return list
}

// readHoldings reads token balances. It ignores those of programs other than the two token
// programs.
func (s *scanner) readHoldings(list []holding) []holding {
	s.expectByte('[')
	for n := 0; s.hasNext(']', &n); {
		h := holding{account: -1}
		hasUnits := false
		s.expectByte('{')
		for n := 0; s.hasNext('}', &n); {
			switch string(s.readMember()) {
			case "accountIndex":
				h.account = int(min(s.readNumber(), accountsMax))
			case "mint":
				h.mint = s.readWord()
			case "owner":
				h.owner = s.readWord()
			case "programId":
				h.program = s.readWord()
			case "uiTokenAmount":
				s.expectByte('{')
				for n := 0; s.hasNext('}', &n); {
					if string(s.readMember()) == "amount" && !hasUnits {
						h.units, hasUnits = s.readQuantity(), true
					} else {
						s.skipValue()
					}
				}
			default:
				s.skipValue()
			}
		}
		if h.account < 0 || !hasUnits || len(h.mint) == 0 || len(h.owner) == 0 || len(h.program) == 0 {
			s.fail("a token balance that lacks its account, mint, owner, program or amount")
			return list
		}
		list = append(list, h)
	}
	return list
}

// lamportsMax is more than all lamports. Sums below it fit a signed number.
const lamportsMax = math.MaxInt64

// checkConsistency checks that the parts of a transaction fit one another and computes what it
// cost. A transaction neither makes nor destroys lamports. So what all its accounts hold less is
// what was charged, independently of the node's fee.
func (t *tx) checkConsistency() error {
	n := len(t.accounts)
	switch {
	case n == 0 || len(t.signature) == 0:
		return fmt.Errorf("it has no signature")
	case n > accountsMax || len(t.pre) != n || len(t.post) != n:
		return fmt.Errorf("it names %d accounts and has %d balances before and %d after", n, len(t.pre), len(t.post))
	}
	var before, after uint64
	for i, a := range t.accounts {
		if len(a) == 0 {
			return fmt.Errorf("account %d has no address", i)
		}
		if t.pre[i] > lamportsMax || t.post[i] > lamportsMax {
			return fmt.Errorf("account %d has more lamports than the supply", i)
		}
		if before, after = before+t.pre[i], after+t.post[i]; before > lamportsMax || after > lamportsMax {
			return fmt.Errorf("its accounts have more lamports than the supply")
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
		var isCounted [accountsMax]bool
		valid := (*side.list)[:0]
		for _, h := range *side.list {
			if h.account >= n || isCounted[h.account] {
				return fmt.Errorf("a token balance is of account %d of %d, or there twice", h.account, n)
			}
			isCounted[h.account] = true
			t.isToken[h.account] = true
			// Without lamports there is no account, and nothing in it (surfpool 1.5.0 continues to
			// report the contents of a closed one).
			if side.lamports[h.account] > 0 && isTokenProgram(h.program) {
				valid = append(valid, h)
			}
		}
		*side.list = valid
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

// unitsBefore returns what an account held of a mint for an owner before a transaction.
func (t *tx) unitsBefore(account int, mint, owner []byte) uint64 {
	return unitsIn(t.preTokens, account, mint, owner)
}

// unitsAfter returns what an account holds of a mint for an owner after a transaction.
func (t *tx) unitsAfter(account int, mint, owner []byte) uint64 {
	return unitsIn(t.postTokens, account, mint, owner)
}

// internTable gives one string for equal bytes. Without it a few addresses would keep a whole
// answer in memory.
type internTable map[string]string

func (n internTable) intern(b []byte) string {
	if s, ok := n[string(b)]; ok {
		return s
	}
	s := strings.Clone(string(b))
	n[s] = s
	return s
}
