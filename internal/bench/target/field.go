package target

// FieldError says which field of a GeoDatabase a database that runs already does not go with: its value, and what would
// be right.
type FieldError struct {
	// Field is as in a manifest, from spec on: spec.external.database.
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
