package txn

// Class is the reach of a transaction (section 3.4 of SmallBank on Detock). It states whether its keys have a single
// home region or several, and a single partition number or several.
type Class uint8

// The four classes.
const (
	SingleHomeSinglePartition Class = iota
	SingleHomeMultiPartition
	MultiHomeSinglePartition
	MultiHomeMultiPartition
	// NumClasses is the number of classes, for arrays indexed by Class.
	NumClasses
)

// ClassOf returns the class with these properties.
func ClassOf(multiHome, multiPartition bool) Class {
	var c Class
	if multiPartition {
		c |= 1
	}
	if multiHome {
		c |= 2
	}
	return c
}

// MultiHome reports whether the class spans regions.
func (c Class) MultiHome() bool { return c&2 != 0 }

// MultiPartition reports whether the class spans partitions.
func (c Class) MultiPartition() bool { return c&1 != 0 }

// String returns SH-SP, SH-MP, MH-SP or MH-MP.
func (c Class) String() string { return [...]string{"SH-SP", "SH-MP", "MH-SP", "MH-MP"}[c&3] }
