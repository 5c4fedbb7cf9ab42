// Wallets of the browser by the Wallet Standard. A wallet announces itself, or is asked for when this module is loaded;
// either side may be first.

// discover calls found with each wallet, once.
export const discover = (found) => {
  const known = new Set();
  const register = (...wallets) => {
    for (const wallet of wallets) {
      if (!wallet?.features || !Array.isArray(wallet.chains) || known.has(wallet)) continue;
      known.add(wallet);
      found(wallet);
    }
    return () => {};
  };
  const api = Object.freeze({ register });
  addEventListener('wallet-standard:register-wallet', (event) => {
    if (typeof event.detail === 'function') event.detail(api);
  });
  dispatchEvent(new CustomEvent('wallet-standard:app-ready', { detail: api }));
};

// connect returns the first account of a wallet on a family of chains such as 'solana:', and nothing without one.
export const connect = async (wallet, family) => {
  const connected = await wallet.features['standard:connect']?.connect();
  const accounts = connected?.accounts ?? wallet.accounts ?? [];
  return accounts.find((account) => account.chains.some((chain) => chain.startsWith(family)));
};
