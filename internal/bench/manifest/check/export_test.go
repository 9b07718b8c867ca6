package check

// MemoryOf exports memoryOf to tests.
var MemoryOf = memoryOf
