package signinpages

import "strings"

// deviceNames are texts of user agents with their names for people. The first that fits counts: Edge names
// Chrome, and Chrome names Safari.
var (
	browserNames = [][2]string{
		{"Edg/", "Edge"}, {"OPR/", "Opera"}, {"Firefox/", "Firefox"}, {"Chrome/", "Chrome"}, {"Safari/", "Safari"},
	}
	systemNames = [][2]string{
		{"iPhone", "iPhone"},
		{"iPad", "iPad"},
		{"Android", "Android"},
		{"Windows", "Windows"},
		{"Mac OS X", "macOS"},
		{"Linux", "Linux"},
	}
)

// DescribeDevice names the browser and the system of a user agent, as far as it says them.
func DescribeDevice(userAgent string) string {
	browser, system := findName(browserNames, userAgent), findName(systemNames, userAgent)
	switch {
	case browser == "" && system == "":
		return "An unknown browser"
	case system == "":
		return browser
	case browser == "":
		return "A browser on " + system
	}
	return browser + " on " + system
}

func findName(names [][2]string, userAgent string) string {
	for _, pair := range names {
		if strings.Contains(userAgent, pair[0]) {
			return pair[1]
		}
	}
	return ""
}
