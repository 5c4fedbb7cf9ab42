package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// hashVersion is hashed with every row, so that another layout gives another hash.
const hashVersion = "coffer-audit-1"

// Line is a row of the log with its position in the chain, as an export writes it. Every column of
// the row is in its hash.
type Line struct {
	Position     int64   `json:"position"` // from 1, without gaps
	Hash         string  `json:"hash"`     // hex SHA-256 over the hash before and the row
	AuditID      int64   `json:"auditId"`
	OrgID        *string `json:"organizationId"`
	RecordedAt   string  `json:"at"` // RFC 3339, to the microsecond
	ActorKind    string  `json:"actorKind"`
	ActorID      string  `json:"actorId"`
	Action       string  `json:"action"`
	ResourceKind string  `json:"resourceKind"`
	ResourceID   string  `json:"resourceId"`
	Detail       string  `json:"detail"` // exactly the JSON text that the database has
	// It has a position, but the log does not have the row.
	Missing bool `json:"missing,omitempty"`
}

// columns lists the columns of a row, in the order in which they are encoded.
const columns = `a.audit_id, a.org_id, a.at, a.actor_kind, a.actor_id, a.action, a.resource_kind, a.resource_id, a.detail::text`

func (l *Line) scanTargets(recordedAt *time.Time) []any {
	return []any{
		&l.AuditID, &l.OrgID, recordedAt, &l.ActorKind, &l.ActorID, &l.Action, &l.ResourceKind, &l.ResourceID,
		&l.Detail,
	}
}

func scanLine(row pgx.CollectableRow) (l Line, err error) {
	var recordedAt time.Time
	if err = row.Scan(l.scanTargets(&recordedAt)...); err == nil {
		l.RecordedAt = formatTime(recordedAt)
	}
	return l, err
}

// timeLayout has exactly the digits that PostgreSQL keeps.
const timeLayout = "2006-01-02T15:04:05.000000Z"

func formatTime(t time.Time) string { return t.UTC().Format(timeLayout) }

// Encode returns the bytes of a row that are hashed: every column in its order, each with its
// length before it. It distinguishes a column that is null from one that is empty. No two rows have
// the same bytes.
func (l Line) Encode() []byte {
	b := make([]byte, 0, 256+len(l.Detail))
	b = binary.BigEndian.AppendUint64(b, uint64(l.AuditID))
	if l.OrgID == nil {
		b = append(b, 0)
	} else {
		b = appendField(append(b, 1), *l.OrgID)
	}
	for _, word := range []string{
		l.RecordedAt, l.ActorKind, l.ActorID, l.Action, l.ResourceKind, l.ResourceID, l.Detail,
	} {
		b = appendField(b, word)
	}
	return b
}

func appendField(b []byte, word string) []byte {
	return append(binary.BigEndian.AppendUint64(b, uint64(len(word))), word...)
}

// Hash is a link of the chain.
type Hash [sha256.Size]byte

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// genesisHash is the hash before the first row of a chain.
func genesisHash(chain string) Hash { return sha256.Sum256([]byte(hashVersion + "\n" + chain)) }

// chainHash returns the hash of a row at its position after the previous hash.
func (l Line) chainHash(prev Hash) Hash {
	h := sha256.New()
	h.Write([]byte(hashVersion))
	h.Write(prev[:])
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(l.Position)))
	h.Write(l.Encode())
	return Hash(h.Sum(nil))
}

func parseHash(text string) (h Hash, err error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(h) || hex.EncodeToString(b) != text {
		return h, fmt.Errorf("%.80q is not a hash", text)
	}
	return Hash(b), nil
}
