package ledger

import "sync"

// AccountMemory remembers the numbers of accounts between transactions, so that a posting looks none of them up.
// An account never changes, but a restored database may give its number to another one. A posting by a remembered
// number is therefore for causes of which the database compares both accounts with the cause. It is safe for concurrent
// use.
type AccountMemory struct {
	mu sync.Mutex
	// An account is in recent, or in older if it was not used since recent was started. When recent is full, older is
	// dropped.
	recent, older map[Account]int64
}

// accountsMax bounds the accounts in one half of a memory, of some 200 bytes each.
const accountsMax = 50_000

// Remember keeps accounts that were looked up.
func (m *AccountMemory) Remember(found KnownAccounts) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for a, k := range found {
		m.store(a, k.id)
	}
}

func (m *AccountMemory) store(a Account, id int64) {
	if _, isRecent := m.recent[a]; !isRecent && (m.recent == nil || len(m.recent) >= accountsMax) {
		m.older, m.recent = m.recent, make(map[Account]int64)
	}
	m.recent[a] = id
}

// Find returns those of these accounts that it remembers, without their balances, and lists the missing ones.
func (m *AccountMemory) Find(accounts ...Account) (found KnownAccounts, missing []Account) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found = make(KnownAccounts, len(accounts))
	for _, a := range accounts {
		id, ok := m.recent[a]
		if !ok {
			if id, ok = m.older[a]; !ok {
				missing = append(missing, a)
				continue
			}
			m.store(a, id)
		}
		found[a] = KnownAccount{id: id}
	}
	return found, missing
}

// Forget drops accounts.
func (m *AccountMemory) Forget(accounts ...Account) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range accounts {
		delete(m.recent, a)
		delete(m.older, a)
	}
}
