-- A run that has ended can be run again; one that is under way can be cancelled; one that has no database yet can wait.
local actions = {}
local stage = obj.status ~= nil and obj.status.stage or nil
local over = stage == "Completed" or stage == "Failed"
actions["rerun"] = { ["disabled"] = not over }
actions["cancel"] = { ["disabled"] = over or obj.spec.cancel == true }
actions["suspend"] = { ["disabled"] = obj.spec.suspend == true or not (stage == nil or stage == "Preflight") }
actions["resume"] = { ["disabled"] = obj.spec.suspend ~= true }
return actions
