// Package browser opens pages of the service in a real Chromium, for tests that check what a person
// sees and what the page requests from the network.
//
// It keeps every error message that the page writes to the console, every exception, everything
// that its policy refuses, and every request that it makes. So a broken page never passes for a
// good one. A crash leaves nothing; the browser ends with the test.
package browser

import (
	"bytes"
	"compress/gzip"
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

const (
	// patience is the longest that an action on a page may take on a busy machine.
	patience = 3 * time.Minute
	// tabMax bounds the life of a browser against a hang.
	tabMax = 25 * time.Minute
)

// Page is a tab with what it did.
type Page struct {
	t   testing.TB
	ctx context.Context

	mu         sync.Mutex
	requests   []string
	complaints []string
}

// findBrowser returns the path of the browser. scripts/setup --test installs it; a test that cannot
// run fails.
func findBrowser(t testing.TB) string {
	t.Helper()
	for _, name := range []string{
		os.Getenv("COFFER_CHROMIUM"), "chromium", "chromium-browser", "google-chrome",
		"/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
	} {
		if name == "" {
			continue
		}
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("this test needs Chromium: run scripts/setup --test, or name one with COFFER_CHROMIUM")
	return ""
}

// Open starts a browser with an empty tab. The browser ends with the test.
func Open(t testing.TB) *Page {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), tabMax)
	t.Cleanup(cancel)
	ctx, stop := chromedp.NewContext(ctx, chromedp.WithAllocatorOptions(
		chromedp.ExecPath(findBrowser(t)), chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("disable-background-networking", true),
		chromedp.WSURLReadTimeout(patience),
	))
	t.Cleanup(stop)
	p := &Page{t: t, ctx: ctx}
	// The tab has to exist before its events arrive.
	p.runActions(chromedp.Navigate("about:blank"))
	if err := chromedp.Listen(ctx, p.recordEvent); err != nil {
		t.Fatalf("listen to the page: %v", err)
	}
	p.runActions(func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, network.Enable, network.EnableParams{})
		return chromedp.Void{}, err
	}, func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, log.Enable, cdp.Empty{})
		return chromedp.Void{}, err
	})
	return p
}

func (p *Page) runActions(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	err := chromedp.Do(p.ctx, steps...)
	for p.hasLostElement(err) {
		err = chromedp.Do(p.ctx, steps...)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// hasLostElement reports whether an error says that the page replaced an element between the moment in which it was
// found and the action. Nothing was clicked or typed, so the caller can try again.
func (p *Page) hasLostElement(err error) bool {
	return err != nil && p.ctx.Err() == nil && strings.Contains(err.Error(), "Could not find node with given id")
}

func (p *Page) recordEvent(ev any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := ev.(type) {
	case *network.EventRequestWillBeSent:
		p.requests = append(p.requests, e.Request.URL)
	case *network.EventLoadingFailed:
		if !e.Canceled { // The next page ends what the page before was loading.
			p.complaints = append(p.complaints, "a request failed: "+e.ErrorText)
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			p.complaints = append(p.complaints, string(e.Entry.Level)+": "+e.Entry.Text+" "+e.Entry.URL)
		}
	case *runtime.EventExceptionThrown:
		text := "exception: " + e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += " " + e.ExceptionDetails.Exception.Description
		}
		p.complaints = append(p.complaints, text)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			text := string(e.Type) + ":"
			for _, a := range e.Args {
				text += " " + string(a.Value) + a.Description
			}
			p.complaints = append(p.complaints, text)
		}
	}
}

// Appearance says how a page is shown.
type Appearance struct {
	Width, Height int64
	Dark          bool
}

// OpenURL opens a URL.
func (p *Page) OpenURL(url string, look Appearance) {
	p.t.Helper()
	scheme := "light"
	if look.Dark {
		scheme = "dark"
	}
	p.runActions(chromedp.EmulateViewport(look.Width, look.Height), func(ctx context.Context, t *chromedp.Target) (
		chromedp.Void, error,
	) {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return chromedp.Void{}, err
	}, chromedp.Navigate(url))
}

// Resize shows the page in another width and height, without loading it again.
func (p *Page) Resize(look Appearance) {
	p.t.Helper()
	p.runActions(chromedp.EmulateViewport(look.Width, look.Height))
}

// WaitUntil waits until an expression of the page is true. It looks from outside: a wait inside a page would
// not end when the browser keeps the page for the way back, where its scripts stand still.
func (p *Page) WaitUntil(expression string) {
	p.t.Helper()
	p.lookUntil(expression)
}

// isReplaced reports whether an error says that the page is being replaced by the next one, in which the
// caller can try again.
func (p *Page) isReplaced(err error) bool {
	return err != nil && p.ctx.Err() == nil && (strings.Contains(err.Error(), "context with specified id") ||
		strings.Contains(err.Error(), "navigated or closed") ||
		strings.Contains(err.Error(), "context was destroyed"))
}

// Evaluate evaluates an expression in the page.
func Evaluate[T any](p *Page, expression string) T {
	p.t.Helper()
	got, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression))
	for p.isReplaced(err) {
		got, err = chromedp.Run(p.ctx, chromedp.Evaluate[T](expression))
	}
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return got
}

// SaveScreenshot writes the visible page into a file.
func (p *Page) SaveScreenshot(file string) {
	p.t.Helper()
	raw, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(file, raw, 0o600)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// pictureHeightMax bounds a picture of a whole page: of a long list, the first rows say how it looks.
const pictureHeightMax = 4000

// SaveWholePage writes the page into a file, in its whole length up to a bound.
func (p *Page) SaveWholePage(file string) {
	p.t.Helper()
	width := Evaluate[int64](p, "innerWidth")
	height := min(Evaluate[int64](p, "document.documentElement.scrollHeight"), pictureHeightMax)
	// Chromium moves a narrow page from right to left aside where nothing is beyond the viewport.
	isBeyond := Evaluate[bool](p, "document.documentElement.scrollHeight > innerHeight")
	p.call(func(ctx context.Context, t *chromedp.Target) error {
		got, err := cdp.Call(ctx, t, page.CaptureScreenshot, page.CaptureScreenshotParams{
			Format: page.CaptureScreenshotFormatPng, CaptureBeyondViewport: &isBeyond,
			Clip: &page.Viewport{Width: float64(width), Height: float64(height), Scale: 1},
		})
		if err != nil {
			return err
		}
		return os.WriteFile(file, got.Data, 0o600)
	})
}

// SetCookie stores a cookie for a URL, as a sign-in would.
func (p *Page) SetCookie(url, name, value string) {
	p.t.Helper()
	isSecure := true
	p.runActions(func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, network.SetCookie, network.SetCookieParams{
			Name: name, Value: value, URL: url, Path: "/", Secure: &isSecure, HTTPOnly: &isSecure,
		})
		return chromedp.Void{}, err
	})
}

// ClearCookies has the browser forget every cookie.
func (p *Page) ClearCookies() {
	p.t.Helper()
	p.call(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, network.ClearBrowserCookies, cdp.Empty{})
		return err
	})
}

// SubmitForm presses a button that sends one of the document's forms, without the browser's own check of
// fields, and waits until the page that follows is complete.
func (p *Page) SubmitForm(form, button int) {
	p.t.Helper()
	Evaluate[bool](p, fmt.Sprintf(`((f) => {
		f.noValidate = true;
		f.closest('details')?.setAttribute('open', '');
		[...f.elements].filter((e) => e.type === 'submit')[%d].setAttribute('data-pressed', '');
		return true;
	})(document.forms[%d])`, button, form))
	p.Press("[data-pressed]", 1)
}

// Press presses a button by a script, so many times before the browser does anything about the first, and
// waits until the page that follows is complete. The pointer misses a button that moves, or that stands at
// the end of a long page, and does not find one of a page that the browser kept for the way back.
func (p *Page) Press(selector string, times int) {
	p.t.Helper()
	p.WaitUntil(fmt.Sprintf("document.querySelector(%q)?.checkVisibility() === true", selector))
	Evaluate[bool](p, "window.cofferStays = true")
	Evaluate[bool](p, fmt.Sprintf(
		"((button) => { %s return true; })(document.querySelector(%q))",
		strings.Repeat("button.click(); ", times), selector,
	))
	p.WaitUntil(hasLeft)
}

// Type types a text into the field that a CSS selector finds, in place of what it has.
func (p *Page) Type(selector, text string) {
	p.t.Helper()
	p.WaitUntil(fmt.Sprintf("document.querySelector(%q) !== null", selector))
	Evaluate[string](p, fmt.Sprintf("document.querySelector(%q).value = ''", selector))
	p.runActions(chromedp.SendKeys(chromedp.CSS(selector), text))
}

// ChooseFile chooses a file of this machine in the field that a CSS selector finds.
func (p *Page) ChooseFile(selector, file string) {
	p.t.Helper()
	p.runActions(chromedp.SetUploadFiles(chromedp.CSS(selector), []string{file}))
}

// PressKeys presses keys one after another, such as "\t" and "\r", wherever the focus is.
func (p *Page) PressKeys(keys string) {
	p.t.Helper()
	p.runActions(chromedp.KeyEvent(keys))
}

// Click clicks on what a CSS selector finds, and waits until the page that follows is complete.
func (p *Page) Click(selector string) {
	p.t.Helper()
	p.leaveBy(chromedp.WaitVisible(chromedp.CSS(selector)), chromedp.Click(chromedp.CSS(selector)))
}

// DoubleClick is Click, twice in quick succession.
func (p *Page) DoubleClick(selector string) {
	p.t.Helper()
	p.leaveBy(chromedp.WaitVisible(chromedp.CSS(selector)), chromedp.DoubleClick(chromedp.CSS(selector)))
}

// leaveBy runs actions that lead to another page and waits until that is complete. A mark in the present
// page shows that it was left.
func (p *Page) leaveBy(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	Evaluate[bool](p, "window.cofferStays = true")
	p.runActions(steps...)
	p.WaitUntil(hasLeft)
}

// hasLeft is true when another page stands there, complete.
const hasLeft = "window.cofferStays === undefined && document.readyState === 'complete'"

// Axe is the accessibility checker axe-core, which runs in the page. NOTICE names its origin.
//
//go:embed axe-4.14.1.min.js.gz
var axe []byte

// readAxe unpacks the source of axe once: that costs more than a page, under the race detector.
var readAxe = sync.OnceValues(func() (string, error) {
	reader, err := gzip.NewReader(bytes.NewReader(axe))
	if err != nil {
		return "", err
	}
	source, err := io.ReadAll(reader)
	return string(source), err
})

// ListAccessibilityProblems runs axe-core in the page and lists what it finds.
func (p *Page) ListAccessibilityProblems() []string {
	p.t.Helper()
	source, err := readAxe()
	if err != nil {
		p.t.Fatal(err)
	}
	Evaluate[bool](p, source+"; true")
	found, err := chromedp.Run(p.ctx, chromedp.Evaluate[[]string](`axe.run({resultTypes: ["violations"]}).then(
		(r) => r.violations.flatMap((v) => v.nodes.map((n) => v.id + ": " + n.target + " " + n.failureSummary)),
	)`, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("check the accessibility of the page: %v", err)
	}
	return found
}

// ListRequests lists the URLs that the page has requested so far.
func (p *Page) ListRequests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.requests)
}

// ListComplaints lists the errors and warnings of the page so far.
func (p *Page) ListComplaints() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.complaints)
}
