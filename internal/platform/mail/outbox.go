package mail

import (
	"context"
	"fmt"

	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

// Outbox writes mails. It is safe for concurrent use.
type Outbox struct{ Seal *seal.Keyset }

const idPrefix = "mail"

// Queue writes a mail in the caller's transaction, of an organization or of the system. The mail
// goes out after the commit, and never if there is none. No lock makes Queue wait, and it has no
// limit of its own: Sender holds back mails of which one mailbox got too many. Errors:
// INVALID_REQUEST on email for an address that is not one; any other message that is malformed is a
// mistake of the program. Rule MAIL-1.
func (o *Outbox) Queue(ctx context.Context, tx pg.Tx, m Message) error {
	if err := m.check(); err != nil {
		return err
	}
	mailID := id.New(idPrefix, tx.Now)
	sealed, err := o.Seal.Seal(encodeContent(m), bindContent(mailID))
	if err != nil {
		return fmt.Errorf("queue a mail of kind %s: %w", m.Kind, err)
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO mails (mail_id, kind, to_address, sealed, created_at, attempt_after)
		VALUES ($1, $2, $3, $4, $5, $5)`, mailID, m.Kind, m.To, sealed, tx.Now)
	if err != nil {
		return fmt.Errorf("queue a mail of kind %s: %w", m.Kind, err)
	}
	return nil
}
