-- Healthy, Degraded and Suspended come from the conditions Ready and Stalled of the present generation; all else is Progressing.
local health = { status = "Progressing", message = "the operator has not seen the present spec yet" }
if obj.status == nil or obj.status.conditions == nil or obj.status.observedGeneration ~= obj.metadata.generation then
  return health
end
for _, condition in ipairs(obj.status.conditions) do
  if condition.type == "Stalled" and condition.status == "True" then
    return { status = "Degraded", message = condition.message }
  end
  if condition.type == "Ready" then
    health.message = condition.message
    if condition.status == "True" then
      health.status = "Healthy"
    elseif condition.reason == "Suspended" then
      health.status = "Suspended"
    end
  end
end
return health
