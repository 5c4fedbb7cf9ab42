package wallet

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"
)

// provenMost is how many proofs are remembered in one generation: 32 bytes each.
const provenMost = 1 << 16

// proven remembers which proofs held. To verify one is what a credit costs this
// process most, and whether it holds follows from the bytes alone: a row in which
// anything was changed since has others and is verified anew. The zero value is empty.
type proven struct {
	mu         sync.Mutex
	young, old map[[sha256.Size]byte]struct{}
}

func digest(said, proof []byte) [sha256.Size]byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(said)+len(proof)), uint64(len(said)))
	return sha256.Sum256(append(append(b, said...), proof...))
}

func (p *proven) met(said, proof []byte) bool {
	d := digest(said, proof)
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.young[d]; ok {
		return true
	}
	_, ok := p.old[d]
	if ok {
		p.put(d)
	}
	return ok
}

func (p *proven) add(said, proof []byte) {
	d := digest(said, proof)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.put(d)
}

// put forgets what was not asked for since the generation before the last.
func (p *proven) put(d [sha256.Size]byte) {
	if p.young == nil || len(p.young) >= provenMost {
		p.young, p.old = map[[sha256.Size]byte]struct{}{}, p.young
	}
	p.young[d] = struct{}{}
}
