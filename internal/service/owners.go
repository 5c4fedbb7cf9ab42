package service

import (
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/depositswap"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/internal/wallet"
)

// depositOwners maps each purpose of wallets to the owner of what arrives there.
func depositOwners(
	swaps *swap.Service, depositSwaps *depositswap.Service, checkouts *checkout.Service,
) map[string]deposit.Owner {
	return map[string]deposit.Owner{
		wallet.CustomerDeposit: deposit.CustomerOwner{}, wallet.OrganizationDeposit: deposit.ProductOwner{},
		wallet.Treasury: deposit.TreasuryOwner{}, wallet.Change: deposit.ChangeOwner{},
		wallet.SwapDelivery: swapOwner{swaps: swaps}, wallet.SwapRefund: swapOwner{swaps: swaps},
		wallet.DepositSwap:    depositSwapOwner{depositSwaps: depositSwaps},
		wallet.Checkout:       checkoutOwner{checkouts: checkouts},
		wallet.CheckoutShared: checkoutOwner{deposit.CheckoutOwner{IsShared: true}, checkouts},
	}
}
