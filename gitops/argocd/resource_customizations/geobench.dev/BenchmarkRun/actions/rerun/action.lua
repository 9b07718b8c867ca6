-- No earlier generation had this runID.
obj.spec.runID = "rerun-" .. tostring(obj.metadata.generation)
obj.spec.cancel = false
return obj
