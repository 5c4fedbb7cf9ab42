package pages

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// forbiddenSource finds what puts markup, a style or a script from a value into a page.
var forbiddenSource = []struct {
	name string
	text *regexp.Regexp
}{
	{"templ.Raw", regexp.MustCompile(`\btempl\.Raw\b|@templ\.Raw`)},
	{"templ.SafeURL", regexp.MustCompile(`\btempl\.(SafeURL|URL|SafeCSS|SafeScript|JSUnsafeFuncCall|JSExpression)\b`)},
	{"a style in the markup", regexp.MustCompile(`<style|[\s"]style\s*=`)},
	{"an event in the markup", regexp.MustCompile(`\son[a-z]+\??\s*=`)},
	{"a script in the markup", regexp.MustCompile(`<script[^>]*>[^<]|\bscript [a-z]\w*\(|javascript:`)},
}

// No component writes markup, styles or scripts from a value, whatever the escaping would do.
func TestNoComponentWritesMarkupFromAValue(t *testing.T) {
	t.Parallel()
	count := 0
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(path, "_templ.go") || strings.HasSuffix(path, "_test.go") ||
			!strings.HasSuffix(path, ".templ") && !strings.HasSuffix(path, ".go") {
			return err
		}
		if !strings.Contains(path, "pages") && !strings.Contains(path, "dashboard") &&
			!strings.Contains(path, "console") {
			return nil
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if strings.HasSuffix(path, ".templ") {
			count++
		}
		for _, forbidden := range forbiddenSource {
			if strings.HasSuffix(path, ".go") && !strings.HasPrefix(forbidden.name, "templ.") {
				continue
			}
			if found := forbidden.text.FindString(string(raw)); found != "" {
				t.Errorf("%s has %s: %q", path, forbidden.name, found)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if count < 3 {
		t.Errorf("looked at %d templates, want all", count)
	}
	for _, bad := range []string{`<p style="x">`, `<a onclick={ f }>`, `<script>alert(1)</script>`, `@templ.Raw(x)`} {
		isFound := false
		for _, forbidden := range forbiddenSource {
			isFound = isFound || forbidden.text.MatchString(bad)
		}
		if !isFound {
			t.Errorf("the check does not find %q", bad)
		}
	}
}

// The script and the style sheet stay small, and neither writes markup or names another host.
func TestTheAssetsAreSmallAndPlain(t *testing.T) {
	t.Parallel()
	const bytesMax = 8 << 10
	for name, a := range newAssets("/x/").byName {
		if len(a.packed) > bytesMax {
			t.Errorf("%s has %d bytes compressed, want at most %d", name, len(a.packed), bytesMax)
		}
		for _, foreign := range []string{
			"innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "//cdn", "https://", "@import",
		} {
			if strings.Contains(string(a.plain), foreign) {
				t.Errorf("%s has %q", name, foreign)
			}
		}
	}
}
