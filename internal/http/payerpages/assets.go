package payerpages

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"strings"
	"sync"

	"github.com/go-chi/chi/v5"

	"github.com/cofferpay/coffer/internal/http/pages"
)

//go:embed assets
var assetFiles embed.FS

// hashLength is the number of hexadecimal digits of the hash in an asset's name.
const hashLength = 16

const scriptKind = "text/javascript; charset=utf-8"

// asset is a file that every page loads, compressed at the start.
type asset struct {
	kind          string
	plain, packed []byte
}

// assets are the files by their names with hashes, and their paths. They are small, because a first visit loads all of
// them. Rule CO-49.
type assets struct {
	byName              map[string]asset
	style, script, icon string
	claim               string // the script of refunds
}

// readAssets builds the files once for all servers of a process: the race detector makes compressing them take
// seconds, and each test has a server of its own.
var readAssets = sync.OnceValue(newAssets)

func newAssets() assets {
	a := assets{byName: map[string]asset{}}
	// A file may import others, which are added before it under the names that it uses.
	add := func(file, kind string, imports ...[2]string) string {
		raw, err := assetFiles.ReadFile("assets/" + file)
		if err != nil {
			panic("payerpages: an asset is missing: " + err.Error())
		}
		for _, imported := range imports {
			raw = bytes.ReplaceAll(raw, []byte(imported[0]), []byte(imported[1]))
		}
		sum := sha256.Sum256(raw)
		extension := path.Ext(file)
		name := strings.TrimSuffix(file, extension) + "." + hex.EncodeToString(sum[:])[:hashLength] + extension
		a.byName[name] = asset{kind: kind, plain: raw, packed: pages.Compress(raw)}
		return assetsPath + name
	}
	a.style = add("pay.css", "text/css; charset=utf-8")
	module := [2]string{"./walletstandard.js", add("walletstandard.js", scriptKind)}
	a.script = add("pay.js", scriptKind, module)
	a.claim = add("claim.js", scriptKind, module)
	a.icon = add("icon.svg", "image/svg+xml")
	return a
}

// serve serves an asset. Its name changes with its content, so a browser never asks for it again.
func (a assets) serve(w http.ResponseWriter, r *http.Request) {
	found, ok := a.byName[chi.URLParam(r, "name")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", found.kind)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		_, _ = w.Write(found.packed) // The browser is gone.
		return
	}
	_, _ = w.Write(found.plain)
}
