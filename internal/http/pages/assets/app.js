// The script of the pages. It copies values, keeps ages of times up to date, asks for passkeys and for
// signatures of what the page shows, disables a form that was sent, moves the focus to what was wrong, has
// shortcuts that lead to pages, and loads a page again whose things changed. It writes only markup that the
// server sent for this page, and no shortcut decides anything.
'use strict';

(() => {
  const each = (selector, act) => document.querySelectorAll(selector).forEach(act);
  const announce = (text) => { document.querySelector('.announcement').textContent = text; };

  // Copying.
  const showCopyButtons = () => each('[data-copy]', (button) => { button.hidden = false; });
  showCopyButtons();
  addEventListener('click', async (event) => {
    const button = event.target.closest('[data-copy]');
    if (!button) return;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
    } catch {
      announce('Copying is not possible in this browser.');
      return;
    }
    announce('Copied.');
    button.classList.add('done');
    setTimeout(() => button.classList.remove('done'), 1500);
  });

  // Ages of times, with the words of ui.FormatAge, and the time of the reader as a title.
  const span = (seconds) => {
    const [count, noun] = seconds < 60 ? [seconds, 'second']
      : seconds < 3600 ? [Math.floor(seconds / 60), 'minute']
        : seconds < 172800 ? [Math.floor(seconds / 3600), 'hour']
          : [Math.floor(seconds / 86400), 'day'];
    return count === 1 ? `1 ${noun}` : `${count} ${noun}s`;
  };
  const age = (at) => {
    const seconds = Math.trunc((Date.now() - at) / 1000);
    if (seconds < 0) return `in ${span(-seconds)}`;
    return seconds < 10 ? 'just now' : `${span(seconds)} ago`;
  };
  const refreshAges = () => each('time', (time) => {
    const shown = time.querySelector('.age');
    if (!shown) return;
    const at = Date.parse(time.dateTime);
    shown.textContent = age(at);
    time.title = new Date(at).toLocaleString(undefined, { dateStyle: 'full', timeStyle: 'long' });
  });
  refreshAges();
  setInterval(refreshAges, 15000);

  // The time zone of the reader.
  each('[data-time-zone]', (input) => {
    input.value ||= Intl.DateTimeFormat().resolvedOptions().timeZone || '';
  });

  // Passkeys. A form asks the service for options and the browser for an answer, and carries the answer in
  // a hidden field. Without scripts the field stays empty, and the form takes a code.
  const canUsePasskeys = Boolean(window.PublicKeyCredential?.parseRequestOptionsFromJSON);
  let autofill; // ends the passkey of autofill, of which a browser allows one at a time
  const fetchOptions = async (form) => {
    const body = new URLSearchParams();
    form.querySelectorAll('input[type=hidden][name]:not([data-passkey])').forEach((i) => body.append(i.name, i.value));
    const response = await fetch(`${form.getAttribute('action')}/options`, { method: 'POST', body });
    if (!response.headers.get('Content-Type')?.startsWith('application/json')) {
      location.reload(); // The session has ended: the page leads to sign-in.
      throw new DOMException('', 'AbortError');
    }
    const answer = await response.json();
    if (answer.stepUp) {
      location.assign(answer.stepUp);
      throw new DOMException('', 'AbortError');
    }
    if (!response.ok) throw new Error(answer.message);
    return answer.publicKey;
  };
  const usePasskey = async (form, more = {}) => {
    const field = form.querySelector('[data-passkey]');
    const options = await fetchOptions(form);
    const credential = field.dataset.passkey === 'create'
      ? await navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(options) })
      : await navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options), ...more });
    field.value = JSON.stringify(credential.toJSON());
    const code = form.querySelector('input[name=code]');
    if (code) {
      code.required = false;
      code.value = '';
    }
    form.requestSubmit();
  };
  const passkeyProblems = {
    AbortError: '',
    InvalidStateError: 'This device already has a passkey of your account.',
    NotAllowedError: 'The passkey did not answer. Nothing was done. Try again, or use another factor.',
    SecurityError: 'A passkey does not work at this address of the pages.',
  };
  // Why something was not done stands at its button.
  const tryAt = async (form, act, problems) => {
    let problem = form.querySelector('.passkey-problem');
    if (!problem) {
      problem = document.createElement('p');
      problem.className = 'field-error passkey-problem';
      problem.setAttribute('role', 'alert');
      form.append(problem);
    }
    problem.textContent = '';
    try {
      await act(form);
    } catch (error) {
      problem.textContent = problems[error.name] ?? (error.message || 'This did not work. Open the page again.');
    }
  };
  const askPasskey = (form) => {
    autofill?.abort();
    return tryAt(form, usePasskey, passkeyProblems);
  };
  const startAutofill = async (form) => {
    if (!await PublicKeyCredential.isConditionalMediationAvailable?.()) return;
    autofill?.abort();
    autofill = new AbortController();
    try {
      await usePasskey(form, { mediation: 'conditional', signal: autofill.signal });
    } catch {
      // The person signs in another way, or presses the button.
    }
  };
  const showPasskeyParts = () => {
    if (canUsePasskeys) each('[data-needs-passkey], [data-use-passkey]', (part) => { part.hidden = false; });
  };
  showPasskeyParts();
  if (canUsePasskeys) {
    addEventListener('click', (event) => {
      const button = event.target.closest('[data-use-passkey]');
      if (button) askPasskey(button.form);
    });
    // A form that takes a passkey alone asks for it when it is sent.
    addEventListener('submit', (event) => {
      const form = event.target;
      const field = form.querySelector('[data-passkey]');
      if (!field || field.value || form.querySelector('input[name=code]')) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      askPasskey(form);
    });
    each('form[data-autofill]', (form) => {
      startAutofill(form);
      // The options count for five minutes.
      setInterval(() => { if (!document.hidden && !form.dataset.sent) startAutofill(form); }, 240000);
    });
  }

  // Signatures of people. What a passkey signs is the text on the screen, which the service compares with what it is
  // about to do. Rules PAGE-106 and PAGE-107.
  const grouping = /\u202f/g;
  const readStatement = (part) => [...part.querySelectorAll('[data-word]')].flatMap((word) => {
    if (part.matches('form') && word.closest('[data-payment]')) return [];
    if (!word.checkVisibility({ opacityProperty: true, visibilityProperty: true })) {
      throw new Error('This page does not show every word that you would sign. Nothing was signed. Load it again.');
    }
    return [word.dataset.word, word.innerText.replace(grouping, '')];
  });
  const hashWords = (words) => {
    const encoder = new TextEncoder();
    const text = ['coffer-statement-1', ...words].map((word) => `${encoder.encode(word).length}:${word}`).join('');
    return crypto.subtle.digest('SHA-256', encoder.encode(text));
  };
  // Of several payments the statement lists the hashes of their words: those of the text on the screen, or nothing is
  // signed. Rule PAGE-125.
  const comparePayments = async (form) => {
    const listed = [...form.querySelectorAll('[data-word=paymentHash]')].map((word) => word.innerText);
    const payments = [...form.querySelectorAll('[data-payment]')];
    const hashes = await Promise.all(payments.map(async (payment) => {
      const hash = await hashWords(readStatement(payment));
      return [...new Uint8Array(hash)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
    }));
    if (listed.join() !== hashes.join()) {
      throw new Error('A payment on this page has other words than those that you would sign. Nothing was signed. Load it again.');
    }
  };
  const fromBase64 = (text) => Uint8Array.from(
    atob(text.replaceAll('-', '+').replaceAll('_', '/')), (c) => c.charCodeAt(0),
  );
  const toBase64 = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer)))
    .replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
  const listCredentials = (text) => text.split(' ').filter(Boolean).map((id) => ({ type: 'public-key', id: fromBase64(id) }));
  const fill = (form, values) => Object.entries(values).forEach(([name, value]) => {
    form.querySelector(`input[name="${name}"]`).value = value;
  });
  const sign = async (form) => {
    const { site, credentials, keys } = form.dataset;
    const words = readStatement(form);
    await comparePayments(form);
    const answer = await navigator.credentials.get({ publicKey: {
      challenge: await hashWords(words), rpId: site, userVerification: 'required',
      allowCredentials: listCredentials(credentials),
    } });
    const credentialId = toBase64(answer.rawId);
    const { authenticatorData, clientDataJSON, signature } = answer.response;
    fill(form, {
      keyId: keys.split(' ')[credentials.split(' ').indexOf(credentialId)] ?? '',
      notAfter: [...form.querySelectorAll('[data-word=notAfter]')].at(-1).innerText,
      credentialId,
      authenticatorData: toBase64(authenticatorData),
      clientDataJSON: toBase64(clientDataJSON),
      signature: toBase64(signature),
    });
    form.requestSubmit();
  };
  const signProblems = {
    NotAllowedError: 'The passkey did not answer, or none of your passkeys for this is here. Nothing was signed. Try again.',
    SecurityError: 'Your passkeys for this do not work at this address of the pages. Nothing was signed.',
  };
  // A passkey of approvals has an identity of its own, so it replaces no other passkey.
  const makeSigner = async (form) => {
    const { site, siteName, person, display, credentials } = form.dataset;
    const made = await navigator.credentials.create({ publicKey: {
      rp: { id: site, name: siteName }, challenge: crypto.getRandomValues(new Uint8Array(32)),
      user: { id: crypto.getRandomValues(new Uint8Array(32)), name: display, displayName: person },
      pubKeyCredParams: [-7, -8, -257].map((alg) => ({ type: 'public-key', alg })),
      authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
      excludeCredentials: listCredentials(credentials), attestation: 'none',
    } });
    const publicKey = made.response.getPublicKey();
    if (!publicKey) throw new Error('This passkey has a kind of key that approvals do not take. Nothing was added.');
    fill(form, { credentialId: toBase64(made.rawId), publicKey: toBase64(publicKey) });
    form.requestSubmit();
  };
  const makeProblems = {
    InvalidStateError: 'This device already has a passkey of yours for this. Nothing was added.',
    NotAllowedError: 'No passkey was made. Nothing was added. Try again.',
    SecurityError: 'Passkeys cannot be made at this address of the pages. Nothing was added.',
  };
  if (canUsePasskeys) {
    addEventListener('submit', (event) => {
      const form = event.target;
      const isMade = form.matches('[data-make-signer]');
      if (!isMade && !form.matches('[data-sign]') || form.querySelector('input[name=credentialId]').value) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      if (isMade) tryAt(form, makeSigner, makeProblems);
      else tryAt(form, sign, signProblems);
    });
  }

  // A form is sent once. The browser's back button enables it again.
  addEventListener('submit', (event) => {
    const form = event.target;
    if (form.dataset.sent) {
      event.preventDefault();
      return;
    }
    form.dataset.sent = 'yes';
    form.querySelectorAll('button[type=submit]').forEach((b) => b.setAttribute('aria-disabled', 'true'));
    announce('Sent. Waiting for the answer.');
  });
  addEventListener('pageshow', () => each('form', (form) => {
    delete form.dataset.sent;
    form.querySelectorAll('[data-passkey], [data-answer]').forEach((field) => { field.value = ''; });
    form.querySelectorAll('button[aria-disabled]').forEach((b) => b.removeAttribute('aria-disabled'));
  }));

  // What was wrong gets the focus.
  document.querySelector('[data-focus]')?.focus();

  // Shortcuts: g and a letter lead to a page.
  let waiting = 0;
  addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest('input, textarea, select, [contenteditable]')) return;
    if (event.key === 'g') {
      waiting = Date.now();
      return;
    }
    if (Date.now() - waiting > 1500) return;
    waiting = 0;
    const link = document.querySelector(`a[data-shortcut="${CSS.escape(event.key)}"]`);
    if (link) {
      event.preventDefault();
      link.click();
    }
  });

  // A page whose things changed is loaded again. Nothing moves while a person works on it. Rule PAGE-9.
  const main = document.querySelector('main[data-live]');
  if (!main) return;
  const bar = document.querySelector('.outdated');
  const createHTML = (text) => text;
  const policy = window.trustedTypes ? trustedTypes.createPolicy('coffer', { createHTML }) : { createHTML };
  let path = main.dataset.live;
  let stream = null;
  let loading = false;
  let again = false;

  const say = (text, linkText) => {
    bar.querySelector('p').textContent = text;
    const link = bar.querySelector('a');
    link.href = location.href;
    link.textContent = linkText;
    bar.hidden = false;
  };
  const isEdited = (field) => (field.type === 'checkbox' || field.type === 'radio'
    ? field.checked !== field.defaultChecked
    : field.type !== 'hidden' && field.value !== field.defaultValue && field.tagName !== 'SELECT');
  const isWorkedOn = () => main.contains(document.activeElement)
      && document.activeElement.matches('input, textarea, select, button')
    || [...main.querySelectorAll('input, textarea')].some(isEdited)
    || main.querySelector('form[data-sent]') !== null
    || !getSelection().isCollapsed && main.contains(getSelection().anchorNode);
  // A row is what stands behind one link; ages of times do not count as changes.
  const listRows = (root) => {
    const rows = new Map();
    root.querySelectorAll('tbody tr').forEach((row) => {
      const copy = row.cloneNode(true);
      copy.querySelectorAll('.age').forEach((age) => age.remove());
      rows.set(row.querySelector('a')?.getAttribute('href') ?? copy.textContent, [row, copy.textContent]);
    });
    return rows;
  };
  const plainText = (root) => {
    const copy = root.cloneNode(true);
    copy.querySelectorAll('.age').forEach((age) => age.remove());
    const values = copy.querySelectorAll('input:not([type=hidden]), option[selected]');
    return [copy.textContent, ...[...values].map((field) => field.getAttribute('value'))].join('\n');
  };
  const replace = (fresh) => {
    const before = listRows(main);
    const focused = main.contains(document.activeElement) ? document.activeElement.getAttribute('href') : null;
    main.replaceChildren(...fresh.childNodes);
    let changed = 0;
    listRows(main).forEach(([row, text], key) => {
      if (before.get(key)?.[1] === text) return;
      row.classList.add('changed');
      changed += 1;
    });
    if (focused) main.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
    showCopyButtons();
    showPasskeyParts();
    refreshAges();
    announce(changed > 1 ? `Updated. ${changed} rows are new or changed.`
      : changed === 1 ? 'Updated. One row is new or changed.' : 'Updated.');
  };
  const load = async () => {
    if (loading) {
      again = true;
      return;
    }
    loading = true;
    try {
      const answer = await fetch(location.href, { headers: { 'X-Coffer-Live': '1' }, redirect: 'manual' });
      if (answer.type === 'opaqueredirect') {
        stop();
        say('Your session has ended. Nothing on this page is up to date.', 'Sign in');
      } else if (!answer.ok) {
        say('This page could not be brought up to date.', 'Load it again');
      } else {
        const text = await answer.text();
        const fresh = new DOMParser().parseFromString(policy.createHTML(text), 'text/html').querySelector('main');
        // A page that is asked every few seconds says nothing while nothing changes.
        const isSame = plainText(fresh) === plainText(main);
        if (!isSame && !isWorkedOn()) replace(fresh);
        else if (!isSame) say('Something on this page changed since you opened it.', 'Show the present state');
      }
    } catch {
      // The connection is lost; the stream connects anew and tells what was missed.
    }
    setTimeout(() => {
      loading = false;
      if (again) {
        again = false;
        load();
      }
    }, 1000);
  };
  const stop = () => {
    stream?.close();
    stream = null;
  };
  const start = () => {
    if (stream || document.hidden) return;
    const opened = new EventSource(path);
    stream = opened;
    opened.addEventListener('change', (event) => {
      const query = new URLSearchParams(path.slice(path.indexOf('?')));
      query.set('after', event.lastEventId);
      path = `${path.slice(0, path.indexOf('?'))}?${query}`;
      load();
    });
    opened.addEventListener('ended', load);
    opened.addEventListener('error', () => {
      if (opened.readyState !== EventSource.CLOSED) return;
      stop();
      setTimeout(start, 30000);
    });
  };
  start();
  addEventListener('visibilitychange', () => (document.hidden ? stop() : start()));
  addEventListener('pagehide', stop);
  addEventListener('pageshow', start);
  // Confirmations are not in the log.
  setInterval(() => {
    if (!document.hidden && main.querySelector('[data-poll]')) load();
  }, 3000);
})();
