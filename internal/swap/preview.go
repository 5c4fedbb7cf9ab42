package swap

import (
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/money"
)

// NeedsApproval reports whether a swap of the organization's own money with a value would wait for people, so
// that a page can say so before the request. Without a value nothing can be compared with the threshold.
func NeedsApproval(settings org.Settings, value *money.USD) bool {
	return needsApproval(settings, value)
}
