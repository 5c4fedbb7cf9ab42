// The page is complete without this file. With it, the page changes by itself, copies, counts down to a new rate, and
// pays with the wallets of the browser.
import { discover } from './walletstandard.js';

(() => {
  // The key in the fragment authorizes actions. It stays in the address while the payer moves between the pages of the
  // checkout, and goes nowhere else: browsers do not send fragments.
  const key = location.hash.startsWith('#k=') ? location.hash : '';

  const find = (selector, root = document) => root.querySelector(selector);
  const findAll = (selector, root = document) => [...root.querySelectorAll(selector)];
  const announce = (text) => { find('#announcement').textContent = text; };

  // Times in the zone of the payer, with the figures of every language.
  const showTimes = () => {
    const language = document.documentElement.lang + '-u-nu-latn';
    for (const time of findAll('time[data-clock]')) {
      const moment = new Date(time.dateTime);
      const isToday = moment.toDateString() === new Date().toDateString();
      time.textContent = new Intl.DateTimeFormat(language, isToday ?
        { hour: '2-digit', minute: '2-digit' } : { dateStyle: 'medium', timeStyle: 'short' }).format(moment);
      time.removeAttribute('data-clock');
      time.setAttribute('dir', 'auto');
    }
  };

  // A countdown leads to a new rate and never ends the payment.
  let askedAt = 0;
  const countDown = () => {
    for (const line of findAll('[data-countdown]')) {
      const seconds = Math.ceil((new Date(line.dataset.countdown) - Date.now()) / 1000);
      if (seconds > 0) {
        const text = Math.floor(seconds / 60) + ':' + String(seconds % 60).padStart(2, '0');
        line.textContent = line.dataset.text.replace('{time}', '\u2068' + text + '\u2069');
      } else if (Date.now() - askedAt > 15000) {
        // The clock of the payer may be ahead, so the first answer may still have the old rate.
        askedAt = Date.now();
        load();
      }
    }
  };

  const copy = async (button) => {
    let text = document.body.dataset.copied;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.classList.add('done');
      button.textContent = text;
    } catch {
      const value = find('.all', button.parentElement);
      if (value) getSelection().selectAllChildren(value);
      text = document.body.dataset.copyFailed;
    }
    announce(text);
  };

  // The wallets of the browser: those of EVM chains by EIP-6963, those of Solana by the Wallet Standard. A wallet gets
  // exactly one transaction, and chooses nothing in it.
  const wallets = new Map();
  let walletState = '';
  let isSending = false;
  let hasSent = false;

  const pad = (hex) => hex.padStart(64, '0');
  const describePayment = (box) => {
    const amount = BigInt(box.amount);
    if (!box.contract) return { to: box.address, value: '0x' + amount.toString(16) };
    const data = '0xa9059cbb' + pad(box.address.slice(2).toLowerCase()) + pad(amount.toString(16));
    return { to: box.contract, value: '0x0', data };
  };

  const payWith = async (wallet, box) => {
    const chainId = '0x' + Number(box.chain).toString(16);
    const ask = (method, params = []) => wallet.provider.request({ method, params });
    let hasAsked = false;
    // A transfer to a part of an address would be lost.
    if (!/^0x[0-9a-f]{40}$/i.test(box.address)) return box.refused;
    try {
      const [from] = await ask('eth_requestAccounts');
      try {
        await ask('wallet_switchEthereumChain', [{ chainId }]);
      } catch {
        return box.wrongChain;
      }
      if (BigInt(await ask('eth_chainId')) !== BigInt(chainId)) return box.wrongChain;
      hasAsked = true;
      const hash = await ask('eth_sendTransaction', [{ from, ...describePayment(box) }]);
      if (!/^0x[0-9a-f]{64}$/i.test(hash)) return box.unclear;
      hasSent = true;
      return box.sent;
    } catch (problem) {
      // 4001: the payer refused. Any other problem after the question may have happened after the payment was sent.
      return hasAsked && problem?.code !== 4001 ? box.unclear : box.refused;
    }
  };

  // The transaction of an option of Solana comes from the server. Before a wallet gets it, its amount is compared with
  // the one that stands on the page: the last instruction ends with it, and of a token with the decimals behind it.
  const hasAmount = (transaction, box) => {
    const end = transaction.length - ('isToken' in box ? 1 : 0);
    let amount = 0n;
    for (const byte of transaction.slice(end - 8, end).reverse()) amount = amount * 256n + BigInt(byte);
    return amount === BigInt(box.amount);
  };

  const sendFeature = 'solana:signAndSendTransaction';
  const canPay = (wallet, box) => wallet.features['standard:connect'] && wallet.features[sendFeature] &&
    wallet.chains.includes(box.network);

  const payOnSolana = async (wallet, box) => {
    let hasAsked = false;
    try {
      const { accounts } = await wallet.features['standard:connect'].connect();
      const account = accounts.find(({ chains, features }) =>
        chains.includes(box.network) && features.includes(sendFeature));
      if (!account) return box.refused;
      let answer;
      let text;
      try {
        answer = await fetch(box.request, {
          method: 'POST', headers: { 'Content-Type': 'application/json' }, cache: 'no-store',
          body: JSON.stringify({ account: account.address, amount: box.amount }),
        });
        text = await answer.json();
      } catch {
        return box.failed;
      }
      if (!answer.ok) {
        if (answer.status === 409) load();
        return String(text.message);
      }
      const transaction = Uint8Array.from(atob(text.transaction), (letter) => letter.charCodeAt(0));
      if (!hasAmount(transaction, box)) return box.failed;
      hasAsked = true;
      const [sent] = await wallet.features[sendFeature].signAndSendTransaction({
        account, transaction, chain: box.network,
      });
      if (sent?.signature?.length !== 64) return box.unclear;
      hasSent = true;
      return box.sent;
    } catch (problem) {
      return hasAsked && problem?.code !== 4001 ? box.unclear : box.refused;
    }
  };

  // listWallets returns the wallets that can pay the option of the page.
  const standardWallets = [];
  const listWallets = (box) => box.network ?
    standardWallets.filter((wallet) => canPay(wallet, box)).map((wallet, i) =>
      ({ id: i, name: wallet.name, icon: wallet.icon, pay: (details) => payOnSolana(wallet, details) })) :
    [...wallets.values()].map((wallet) => ({
      id: wallet.info.uuid, name: wallet.info.name, icon: wallet.info.icon, pay: (details) => payWith(wallet, details),
    }));

  const showWallets = () => {
    const box = find('#wallets');
    const offered = box ? listWallets(box.dataset) : [];
    if (!offered.length) return;
    const apps = find('#phone-wallets'); // This browser has a wallet, so no other one is needed.
    if (apps) apps.hidden = true;
    const list = find('ul', box);
    const state = find('.wallet-state', box);
    list.replaceChildren(...offered.map((wallet) => {
      const button = document.createElement('button');
      button.type = 'button';
      button.className = 'button';
      button.id = 'wallet-' + wallet.id;
      button.disabled = isSending || hasSent;
      const icon = String(wallet.icon ?? '');
      if (/^data:image\/(png|jpeg|webp|gif|svg\+xml)[;,]/.test(icon)) {
        const image = document.createElement('img');
        image.src = icon;
        image.alt = '';
        button.append(image);
      }
      button.append(String(wallet.name).slice(0, 60));
      button.addEventListener('click', async () => {
        isSending = true;
        walletState = box.dataset.waiting;
        showWallets();
        walletState = await wallet.pay({ ...box.dataset });
        isSending = false;
        showWallets();
      });
      const item = document.createElement('li');
      item.append(button);
      return item;
    }));
    if (state.textContent !== walletState) state.textContent = walletState;
    box.hidden = false;
  };

  addEventListener('eip6963:announceProvider', (event) => {
    const { info, provider } = event.detail ?? {};
    if (!info?.uuid || !provider?.request || wallets.has(info.uuid)) return;
    wallets.set(info.uuid, { info, provider });
    showWallets();
  });

  // Another script of the page brings an answer to show.
  addEventListener('coffer:page', (event) => replace(event.detail));

  // The holder of the key gets to a refund that waits. The key goes in a header, and the answer has the link.
  document.addEventListener('submit', async (event) => {
    const form = event.target;
    if (!key || !form.matches('form[data-refund-key]')) return;
    event.preventDefault();
    try {
      const answer = await fetch(form.action.split('#')[0], {
        method: 'POST', cache: 'no-store', headers: { 'Coffer-Checkout-Key': key.slice(3) },
      });
      const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
      const link = find('#claim-link', page);
      if (link) location.assign(link.getAttribute('href'));
      else replace(page);
    } catch {
      // The network is away. The payer can press the button again.
    }
  });

  // prepare gives what is new on the page what only scripts can do.
  const prepare = () => {
    showTimes();
    countDown();
    showWallets();
    for (const button of findAll('button[data-copy]')) button.hidden = false;
    if (!key) return;
    for (const field of findAll('[data-key-field]')) field.hidden = true;
    for (const link of findAll('a[data-own]')) link.hash = key;
    for (const form of findAll('form[data-own]')) {
      const target = new URL(form.action);
      target.hash = key;
      form.action = target;
    }
  };

  document.addEventListener('click', (event) => {
    const button = event.target.closest?.('button[data-copy]');
    if (button) copy(button);
  });

  // load replaces the content of the page by that of now. The focus and what is unfolded stay where they are.
  let isLoading = false;
  let isStale = false;
  const load = async () => {
    if (isLoading) {
      isStale = true;
      return;
    }
    isLoading = true;
    isStale = false;
    try {
      const answer = await fetch(document.body.dataset.self, { cache: 'no-store' });
      if (answer.ok) replace(new DOMParser().parseFromString(await answer.text(), 'text/html'));
    } catch {
      // The network is away; the stream tells when it is back.
    }
    isLoading = false;
    if (isStale) load();
  };

  const replace = (page) => {
    const next = find('main', page);
    const main = find('main');
    if (!next) return;
    const isNews = main.dataset.announce !== next.dataset.announce;
    const focused = main.contains(document.activeElement) ? document.activeElement : null;
    const unfolded = new Map(findAll('details[id]', main).map((part) => [part.id, part.open]));
    for (const part of findAll('details[id]', next)) {
      if (unfolded.has(part.id)) part.open = unfolded.get(part.id);
    }
    main.replaceChildren(...next.childNodes);
    main.dataset.announce = next.dataset.announce;
    document.title = page.title;
    prepare();
    if (focused && focused !== main) {
      // What the payer had in focus may be gone; the page itself then has it, so that the next key goes on from there.
      const again = focused.id ? document.getElementById(focused.id) :
        focused.value && find(`button[value="${CSS.escape(focused.value)}"]`, main) ||
        focused.href && findAll('a', main).find((link) => link.href === focused.href);
      (again || main).focus({ preventScroll: Boolean(again) });
    }
    if (isNews) announce(next.dataset.announce);
  };

  // The stream names versions. Where none is to be had, the page asks as it does without scripts.
  const listen = (path) => {
    let stream;
    let timer;
    const open = () => {
      clearInterval(timer);
      stream = new EventSource(path);
      stream.addEventListener('change', load);
      stream.addEventListener('error', () => {
        if (stream.readyState === EventSource.CLOSED && !document.hidden) timer = setInterval(load, 15000);
      });
    };
    // A page that is not looked at keeps no stream. The next one tells what changed meanwhile.
    document.addEventListener('visibilitychange', () => {
      stream?.close();
      clearInterval(timer);
      if (!document.hidden) open();
    });
    if (!document.hidden) open();
  };

  // Where there is room for both, the order stays unfolded beside the payment.
  const order = find('#order');
  if (order && innerWidth >= 900) order.open = true;

  prepare();
  discover((wallet) => {
    standardWallets.push(wallet);
    showWallets();
  });
  dispatchEvent(new Event('eip6963:requestProvider'));
  setInterval(countDown, 1000);
  if (document.body.dataset.live) listen(document.body.dataset.live);
})();
