package resource

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

// DescribeOutage returns why an error will pass, by itself or after the operator's intervention, as
// the beginning of a sentence. It returns "" for other errors, and for an unknown commit.
func DescribeOutage(err error) string {
	if errors.Is(err, pg.ErrCommitUnknown) {
		return ""
	}
	if reason := pg.UnavailableReason(err); reason != "" {
		return "The database " + reason
	}
	if _, unconnected := errors.AsType[*pgconn.ConnectError](err); unconnected {
		return "The database cannot be reached"
	}
	if errors.Is(err, signer.ErrUnavailable) {
		return "The signer cannot be reached, or cannot write its journal"
	}
	if errors.Is(err, journal.ErrUnbound) || journal.IsContradiction(err) {
		return "The signer and the database do not belong together"
	}
	return ""
}
