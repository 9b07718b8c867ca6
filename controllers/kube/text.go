package kube

// Truncate shortens s to at most limit bytes without splitting a character. limit must be at least 3.
func Truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 3 && s[limit-3]&0xc0 == 0x80 {
		limit--
	}
	return s[:limit-3] + "..."
}

// Suffix returns ": " and the message, truncated, or "" if message is empty. It is appended to a statement that the
// message explains.
func Suffix(message string) string {
	if message == "" {
		return ""
	}
	return ": " + Truncate(message, 512)
}
