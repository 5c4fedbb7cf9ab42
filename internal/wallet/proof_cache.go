package wallet

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"
)

// proofCacheMax is how many proofs one generation keeps, at 32 bytes each.
const proofCacheMax = 1 << 16

// proofCache remembers the proofs that held. Verification is the largest cost of a credit in this
// process. Whether a proof holds follows from its bytes alone: a changed row has other bytes and is
// verified again. The zero value is empty.
type proofCache struct {
	mu         sync.Mutex
	young, old map[[sha256.Size]byte]struct{}
}

func proofDigest(attested, proof []byte) [sha256.Size]byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(attested)+len(proof)), uint64(len(attested)))
	return sha256.Sum256(append(append(b, attested...), proof...))
}

func (p *proofCache) isVerified(attested, proof []byte) bool {
	d := proofDigest(attested, proof)
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.young[d]; ok {
		return true
	}
	_, ok := p.old[d]
	if ok {
		p.putDigest(d)
	}
	return ok
}

func (p *proofCache) addProof(attested, proof []byte) {
	d := proofDigest(attested, proof)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.putDigest(d)
}

// putDigest adds a digest. It drops digests that were not used since the generation before the
// last.
func (p *proofCache) putDigest(d [sha256.Size]byte) {
	if p.young == nil || len(p.young) >= proofCacheMax {
		p.young, p.old = map[[sha256.Size]byte]struct{}{}, p.young
	}
	p.young[d] = struct{}{}
}
