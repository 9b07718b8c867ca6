-- Suspending begins no further run; what is under way ends first.
local actions = {}
actions["suspend"] = { ["disabled"] = obj.spec.suspend == true }
actions["resume"] = { ["disabled"] = obj.spec.suspend ~= true }
return actions
