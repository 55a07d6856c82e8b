-- StreamJob follows kstatus: Ready, Reconciling and Stalled, each with the generation that it speaks of. Beyond that,
-- Argo CD tells a suspended resource from a healthy one.
local function condition(kind)
  for _, each in ipairs(obj.status.conditions or {}) do
    if each.type == kind then
      return each
    end
  end
  return {}
end

local function health(status, message)
  return { status = status, message = message or "" }
end

if obj.status == nil or obj.status.observedGeneration ~= obj.metadata.generation then
  return health("Progressing", "Waiting for the controller")
end

local stalled = condition("Stalled")
if stalled.status == "True" then
  return health("Degraded", stalled.message)
end

local checkpoints = condition("CheckpointHealthy")
local overdue = checkpoints.status == "False" and checkpoints.reason == "CheckpointOverdue"

local reconciling = condition("Reconciling")
if reconciling.status == "True" and not (overdue and reconciling.reason == "WaitingForCheckpoint") then
  return health("Progressing", reconciling.message)
end

if obj.status.lifecycleState == "SUSPENDED" then
  return health("Suspended", condition("Ready").message)
end

-- Some failed checkpoints are tolerable; that none completes any more is not.
if overdue then
  return health("Degraded", checkpoints.message)
end

local ready = condition("Ready")
if ready.status == "True" then
  if checkpoints.status == "False" then
    return health("Healthy", checkpoints.message)
  end
  return health("Healthy", ready.message)
end

return health("Progressing", ready.message)
