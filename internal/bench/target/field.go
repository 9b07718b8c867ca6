package target

// FieldError reports a field of a GeoDatabase whose value does not match the running external database. Its message
// states the value that would match.
type FieldError struct {
	// Field is the path in the manifest, starting with spec: spec.external.database.
	Field string
	// Value may be empty if Message contains it or if it is secret.
	Value, Message string
}

func (e *FieldError) Error() string {
	if e.Value == "" {
		return e.Field + ": " + e.Message
	}
	return e.Field + ": " + e.Value + ": " + e.Message
}
