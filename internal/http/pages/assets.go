package pages

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"strings"
	"sync"

	"github.com/go-chi/chi/v5"

	"github.com/cofferpay/coffer/internal/http/pages/ui"
)

//go:embed assets
var assetFiles embed.FS

const assetsPath = "/assets/"

// hashLength is the number of hexadecimal digits of the hash in an asset's name.
const hashLength = 16

// asset is a file of the kit, compressed at the start.
type asset struct {
	kind          string
	plain, packed []byte
}

// assets are the files of the kit by their names with hashes.
type assets struct {
	byName map[string]asset
	paths  ui.Assets
}

// kit is the files of the kit by their names with hashes, and those names by the names of the files.
type kit struct {
	byName map[string]asset
	names  map[string]string
}

// readKit compresses the files once for all surfaces of a process: the race detector makes that take seconds,
// and each test has surfaces of its own.
var readKit = sync.OnceValue(func() kit {
	k := kit{byName: map[string]asset{}, names: map[string]string{}}
	for file, kind := range map[string]string{
		"app.css": "text/css; charset=utf-8", "app.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml",
	} {
		raw, err := assetFiles.ReadFile("assets/" + file)
		if err != nil {
			panic("pages: an asset is missing: " + err.Error())
		}
		sum := sha256.Sum256(raw)
		extension := path.Ext(file)
		name := strings.TrimSuffix(file, extension) + "." + hex.EncodeToString(sum[:])[:hashLength] + extension
		k.byName[name], k.names[file] = asset{kind: kind, plain: raw, packed: Compress(raw)}, name
	}
	return k
})

func newAssets(prefix string) assets {
	k := readKit()
	return assets{byName: k.byName, paths: ui.Assets{
		Style: prefix + k.names["app.css"], Script: prefix + k.names["app.js"], Icon: prefix + k.names["icon.svg"],
	}}
}

// Compress packs bytes as small as gzip can.
func Compress(raw []byte) []byte {
	var out bytes.Buffer
	writer, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err == nil {
		_, err = writer.Write(raw)
	}
	if err == nil {
		err = writer.Close()
	}
	if err != nil {
		panic("pages: cannot compress an asset: " + err.Error())
	}
	return out.Bytes()
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
