// The script of the pages. It copies values, keeps ages of times up to date, disables a form that was
// sent, moves the focus to what was wrong, and has shortcuts that lead to pages. It writes no markup and
// sends no request, and no shortcut decides anything.
'use strict';

(() => {
  const each = (selector, act) => document.querySelectorAll(selector).forEach(act);
  const announce = (text) => { document.querySelector('.announcement').textContent = text; };

  // Copying.
  each('[data-copy]', (button) => {
    button.hidden = false;
    button.addEventListener('click', async () => {
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

  // A form is sent once. The browser's back button enables it again.
  each('form', (form) => form.addEventListener('submit', (event) => {
    if (form.dataset.sent) {
      event.preventDefault();
      return;
    }
    form.dataset.sent = 'yes';
    form.querySelectorAll('button[type=submit]').forEach((b) => b.setAttribute('aria-disabled', 'true'));
    announce('Sent. Waiting for the answer.');
  }));
  addEventListener('pageshow', () => each('form', (form) => {
    delete form.dataset.sent;
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
})();
