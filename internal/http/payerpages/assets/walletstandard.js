// The wallets of the browser that speak the Wallet Standard. The page says that it is ready, and wallets register, in
// whichever order they are loaded. Nothing here asks a wallet for anything.

// An icon is an image of a data URI. As the source of an image it runs no script, whatever it has in it.
const iconPattern = /^data:image\/(png|jpeg|webp|gif|svg\+xml)[;,]/;

const registered = new Set();
const listeners = new Set();

// discover returns the wallets that have registered, and tells the listener when another one does.
export const discover = (listener) => {
  if (listener) listeners.add(listener);
  return [...registered].map((wallet) => {
    const icon = String(wallet.icon ?? '');
    return { name: String(wallet.name).slice(0, 60), icon: iconPattern.test(icon) ? icon : '', wallet };
  });
};

const register = (...wallets) => {
  const added = wallets.filter((wallet) => wallet?.name && wallet.features && !registered.has(wallet));
  for (const wallet of added) registered.add(wallet);
  if (added.length) for (const listener of listeners) listener();
  return () => {
    for (const wallet of added) registered.delete(wallet);
    for (const listener of listeners) listener();
  };
};

const api = Object.freeze({ register });
addEventListener('wallet-standard:register-wallet', ({ detail }) => {
  if (typeof detail === 'function') detail(api);
});
dispatchEvent(new CustomEvent('wallet-standard:app-ready', { detail: api }));
