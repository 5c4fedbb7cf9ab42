package swap_test

import (
	"testing"
)

// Rules SWAP-10, SWAP-11 and SWAP-14: the final delivery alone completes a swap.
func TestADeliveryCompletesASwap(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	w := e.begin()
	e.wantBooks(books{"CUSTOMER 1": funded - amountIn, "IN_SWAP 1": amountIn})
	e.pay(w.ID)
	e.want(w.ID, "PROCESSING", "NONE")
	e.wantBooks(books{"CUSTOMER 1": funded - amountIn, "IN_SWAP 1": amountIn, "AT_PROVIDER 1": amountIn})
	e.deliver(w, amountOut)
	done := e.want(w.ID, "COMPLETED", "NONE")
	if done.AmountOut == nil || done.AmountOut.String() != "298500000" || done.DepositID == nil {
		t.Errorf("got %v in %v, want 298500000", done.AmountOut, done.DepositID)
	}
	e.wantBooks(books{"CUSTOMER 1": funded - amountIn, "CUSTOMER 3": amountOut, "SWAP_FEES_DUE 1": 750_000})
	e.wantEvents(w.ID, "CUSTOMER_DEPOSIT")
	e.wantStrays()
	e.lookWithChain("the end")
}
