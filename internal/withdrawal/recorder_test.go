package withdrawal_test

import (
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// The tests of package withdrawal cannot import wire, which imports it.
func init() { withdrawal.NewTestRecorder = wire.NewRecorder }
