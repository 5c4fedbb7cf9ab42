// The page of a refund is complete without this file: then the payer pastes the key. With it, the key goes from the
// address of the page into a header, the state changes by itself, and wallets of the browser sign.
import { connect, discover } from './walletstandard.js';

const find = (selector, root = document) => root.querySelector(selector);
const findAll = (selector, root = document) => [...root.querySelectorAll(selector)];

// The key stands in the address, or in the forms of a page that was opened with a pasted one.
const key = location.hash.startsWith('#k=') ? location.hash.slice(3) : '';
const keyNow = () => key || find('input[type=hidden][name=key]')?.value || '';

const post = async (path, fields) => {
  const answer = await fetch(path, {
    method: 'POST', cache: 'no-store', headers: { 'Coffer-Claim-Key': keyNow() }, body: new URLSearchParams(fields),
  });
  return { isOk: answer.ok, page: new DOMParser().parseFromString(await answer.text(), 'text/html') };
};

// Only the newest answer is shown: one that comes late would show an older state.
let asked = 0;
let isBusy = false;
const showAnswer = async (path, fields, isQuiet) => {
  const number = ++asked;
  isBusy = !isQuiet;
  try {
    const { isOk, page } = await post(path, fields);
    if (number !== asked || isQuiet && !isOk) return;
    dispatchEvent(new CustomEvent('coffer:page', { detail: page }));
    showSigners();
    if (!isQuiet) (find('main [aria-invalid]') ?? find('main')).focus();
  } catch {
    // The network is away. What was sent arrived or not; the page shows which when it is asked again.
  } finally {
    if (number === asked) isBusy = false;
  }
};

const pathOf = (form) => {
  const target = new URL(form.action);
  return target.pathname + target.search;
};

document.addEventListener('submit', (event) => {
  const form = event.target;
  if (!key || !form.matches('form[data-claim], form[data-key-form]')) return;
  if (form.matches('form[data-key-form]') && find('#key', form).value) return; // The payer pasted another key.
  event.preventDefault();
  if (!isBusy) showAnswer(pathOf(form), new FormData(form));
});

// Wallets that can sign, by the kind of the refund's chain. A wallet gets exactly the text of this installation.
const signers = new Map();
let state = '';
let isSigning = false;

const toHex = (text) => '0x' + [...new TextEncoder().encode(text)].map((b) => b.toString(16).padStart(2, '0')).join('');

const addEVM = (event) => {
  const { info, provider } = event.detail ?? {};
  if (!info?.uuid || !provider?.request || signers.has(info.uuid)) return;
  signers.set(info.uuid, {
    kind: 'EVM', name: info.name, icon: info.icon,
    connect: async () => (await provider.request({ method: 'eth_requestAccounts', params: [] }))[0],
    sign: (text, address) => provider.request({ method: 'personal_sign', params: [toHex(text), address] }),
  });
  showSigners();
};

const addSolana = (wallet) => {
  if (!wallet.features['solana:signMessage'] || !wallet.chains.some((chain) => chain.startsWith('solana:'))) return;
  let account;
  signers.set('solana-' + signers.size, {
    kind: 'SOLANA', name: wallet.name, icon: wallet.icon,
    connect: async () => (account = await connect(wallet, 'solana:'))?.address,
    sign: async (text) => {
      const message = new TextEncoder().encode(text);
      const [signed] = await wallet.features['solana:signMessage'].signMessage({ account, message });
      return btoa(String.fromCharCode(...signed.signature));
    },
  });
  showSigners();
};

// signWith asks a wallet for its address and for a signature, and claims with them. It returns what went wrong.
const signWith = async (signer, box) => {
  const address = await signer.connect();
  if (!address) return box.refused;
  const { isOk, page } = await post(box.challenge, { address });
  const form = find('form[data-proof]', page);
  if (!isOk || !form) {
    dispatchEvent(new CustomEvent('coffer:page', { detail: page }));
    return '';
  }
  const fields = new FormData(form);
  fields.set('signature', await signer.sign(find('#challenge', page).textContent, address));
  const target = new URL(form.getAttribute('action'), location.href);
  await showAnswer(target.pathname + target.search, fields);
  return '';
};

const showSigners = () => {
  const box = find('#signers');
  const offered = box ? [...signers].filter(([, signer]) => signer.kind === box.dataset.proof) : [];
  if (!offered.length) return;
  find('ul', box).replaceChildren(...offered.map(([id, signer]) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'button';
    button.id = 'signer-' + id;
    button.disabled = isSigning;
    const icon = String(signer.icon ?? '');
    if (/^data:image\/(png|jpeg|webp|gif|svg\+xml)[;,]/.test(icon)) {
      const image = document.createElement('img');
      image.src = icon;
      image.alt = '';
      button.append(image);
    }
    button.append(String(signer.name).slice(0, 60));
    button.addEventListener('click', async () => {
      isSigning = true;
      state = box.dataset.waiting;
      showSigners();
      try {
        state = await signWith(signer, { ...box.dataset });
      } catch {
        state = box.dataset.refused;
      }
      isSigning = false;
      showSigners();
    });
    const item = document.createElement('li');
    item.append(button);
    return item;
  }));
  const line = find('.wallet-state', box);
  if (line.textContent !== state) line.textContent = state;
  box.hidden = false;
};

addEventListener('eip6963:announceProvider', addEVM);
dispatchEvent(new Event('eip6963:requestProvider'));
discover(addSolana);

// Another key in the same address is another page. The link to the content keeps the key in the address.
addEventListener('hashchange', () => { if (location.hash.startsWith('#k=')) location.reload(); });
find('.skip').addEventListener('click', (event) => {
  event.preventDefault();
  find('main').focus();
});

const path = document.body.dataset.claimPath;
if (key && find('form[data-key-form]')) showAnswer(path, {}, false);

// While a payment is under way its state is asked for. A page that is not looked at asks for nothing.
setInterval(() => {
  if (!document.hidden && !isBusy && keyNow() && find('[data-moves]')) showAnswer(path, {}, true);
}, 10000);
showSigners();
