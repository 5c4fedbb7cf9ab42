// Package password checks and hashes passwords.
//
// It bounds how many hashes are computed at once, because each takes memory and time that a stranger
// can ask for. It never logs, stores or returns a password. It has no I/O, so a crash leaves nothing.
package password

// Hasher computes hashes with Argon2id.
type Hasher struct{}

// Params are the costs of Argon2id. Zero fields have their defaults.
type Params struct {
	MemoryKiB   uint32 // 19 MiB
	Passes      uint32 // 2
	Parallelism uint8  // 1
	AtOnce      int    // 4 computations
}

// NewHasher makes a Hasher. A process has one.
func NewHasher(p Params) *Hasher { panic("draft") }
