-- SPDX-License-Identifier: BSD-2-Clause
local id = take()
local letter = read('letter', id)
if not letter then
  return refuse('there is no dead letter ' .. id)
end
if letter.closed_at then
  return refuse(id .. ' is closed')
end

local function let_go(op)
  local delivery = op.delivery_id and read('delivery', op.delivery_id)
  if not delivery or delivery.state ~= 'pending' then
    return
  end
  if call('LLEN', key('delivery-ops', delivery.delivery_id)) > 1 then
    call('LREM', key('delivery-ops', delivery.delivery_id), 0, op.operation_id)
  else
    set_state(delivery, 'suppressed', 'replayed')
    log_delivery('on_delivery_suppressed', delivery, 'replayed')
  end
end

local function accept_anew(op)
  let_go(op)
  put('op', op.operation_id, op, {
    status = 'accepted', accepted_at = NOW, replays = op.replays + 1, result = false, error = false,
    outcome_class = false, settled_at = false, progress = false, late = 'false', delivery_id = false,
  })
  queue(op)
  call('SADD', key('session-unsettled', op.session_id), op.operation_id)
  reopen(read('batch', op.batch_id))
  log_operation('on_operation_replayed', op, 'replayed by hand')
end

local function tell_again(delivery)
  put('delivery', delivery.delivery_id, delivery, { waiting_from = NOW })
  set_state(delivery, 'pending', 'replayed')
  log_delivery('on_delivery_replayed', delivery, 'replayed by hand')
end

if letter.kind == 'operation' then
  local op = read('op', letter.subject_id)
  if op.adopted == 'true' then
    return refuse(op.operation_id .. ' was run by Pipecat, which alone can run it again')
  end
  if not is_settled(op) then
    return refuse(op.operation_id .. ' is ' .. op.status)
  end
  accept_anew(op)
else
  tell_again(read('delivery', letter.subject_id))
end
close_letter(id, 'replayed')
return letter_answer(id)
