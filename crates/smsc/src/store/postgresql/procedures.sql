-- The three transactions that every message goes through, each as one function, so that it is one
-- call. The others run statement by statement. A station's lock is an advisory lock of the
-- transaction, in either form.

CREATE SEQUENCE IF NOT EXISTS msg_id_seq;

-- Begins a group of calls that commit together: takes the locks of all of them, in the order of
-- p_keys, before the first changes anything. Groups of a client follow each other: the number of
-- the last is a setting of the session, which is rolled back with its group, so that the groups
-- that were sent after one that failed fail, too, and their calls keep their order.
CREATE OR REPLACE FUNCTION smsc_begin(p_group bigint, p_keys bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF current_setting('smsc.last_group')::bigint <> p_group - 1 THEN
    RAISE EXCEPTION 'the group before was rolled back' USING ERRCODE = 'serialization_failure';
  END IF;
  PERFORM set_config('smsc.last_group', p_group::text, false);
  PERFORM pg_advisory_xact_lock(smsc_lock(it.key)) FROM unnest(p_keys) WITH ORDINALITY AS it(key, place) ORDER BY it.place;
END $$;

-- Receiver: the message's number; 0 if the queue of its station is full, or what smsc_charge
-- refuses. p_account_lock is the key of the account's lock, 0 where accounts are not asked. A part
-- is alphabet, header flag, TP-UDL, octets.
CREATE OR REPLACE FUNCTION smsc_receive(
  p_queue_max bigint, p_account_lock bigint, p_state bigint, p_account bigint, p_src text, p_src_ton bigint, p_src_npi bigint,
  p_dst_key bigint, p_shard bigint, p_dst text, p_dst_ton bigint, p_dst_npi bigint, p_service_type text,
  p_esm_class bigint, p_protocol_id bigint, p_priority bigint, p_registered_delivery bigint, p_data_coding bigint,
  p_submit_us bigint, p_schedule_us bigint, p_expire_us bigint, p_tlvs bytea, p_body bytea, p_rank bigint,
  p_parts bytea[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  v_id bigint;
  v_count integer := coalesce(array_length(p_parts, 1), 0);
BEGIN
  PERFORM pg_advisory_xact_lock(smsc_lock(p_dst_key));
  PERFORM 1 FROM ms_state WHERE dst_key = p_dst_key AND queue >= p_queue_max;
  IF FOUND THEN RETURN 0; END IF;
  IF p_account_lock <> 0 THEN
    PERFORM pg_advisory_xact_lock(smsc_lock(p_account_lock));
    v_id := smsc_charge(p_account, p_submit_us);
    IF v_id < 0 THEN RETURN v_id; END IF;
  END IF;
  v_id := nextval('msg_id_seq');
  INSERT INTO message VALUES (v_id, p_state, p_account, p_src, p_src_ton, p_src_npi, p_dst_key, p_dst, p_dst_ton,
    p_dst_npi, p_service_type, p_esm_class, p_protocol_id, p_priority, p_registered_delivery, p_data_coding,
    p_submit_us, p_schedule_us, p_expire_us, 0, 0, 0, 0, v_count, p_tlvs, p_body);
  FOR i IN 1..v_count LOOP
    INSERT INTO encoded_msg VALUES (v_id, i, get_byte(p_parts[i], 0), get_byte(p_parts[i], 1),
      get_byte(p_parts[i], 2), substr(p_parts[i], 4));
  END LOOP;
  IF p_state = 0 THEN
    INSERT INTO scheduled_msg VALUES (p_schedule_us, v_id, p_dst_key);
  ELSE
    PERFORM smsc_enqueue(p_dst_key, p_shard, p_rank, v_id, p_expire_us, p_submit_us);
  END IF;
  RETURN v_id;
END $$;

-- Counts one message of an account, whose lock is held: 0, or why it may not be submitted: -1 there
-- is no such account, -2 its quota is used up, -3 too many in this second. An earlier second counts
-- for the one that has begun.
CREATE OR REPLACE FUNCTION smsc_charge(p_account bigint, p_now bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  v_account account%ROWTYPE;
  v_second_us bigint := p_now - ((p_now % 1000000) + 1000000) % 1000000;
BEGIN
  SELECT * INTO v_account FROM account WHERE account.account = p_account;
  IF NOT FOUND THEN RETURN -1; END IF;
  IF v_account.quota > 0 AND v_account.submitted >= v_account.quota THEN RETURN -2; END IF;
  IF v_second_us > v_account.second_us THEN
    v_account.second_us := v_second_us;
    v_account.in_second := 0;
  END IF;
  IF v_account.rate_max > 0 AND v_account.in_second >= v_account.rate_max THEN RETURN -3; END IF;
  UPDATE account SET submitted = v_account.submitted + 1, second_us = v_account.second_us,
    in_second = v_account.in_second + 1 WHERE account.account = p_account;
  RETURN 0;
END $$;

CREATE OR REPLACE FUNCTION smsc_enqueue(
  p_dst_key bigint, p_shard bigint, p_rank bigint, p_id bigint, p_expire_us bigint, p_now bigint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO to_delivery VALUES (p_dst_key, p_rank, p_id, p_expire_us);
  INSERT INTO ms_state AS s VALUES (p_dst_key, p_shard, 1, p_now, 0, 0, 1, 0, 0, 0)
    ON CONFLICT (dst_key) DO UPDATE SET
      shard = CASE WHEN s.state = 0 THEN p_shard ELSE s.shard END,
      state = CASE WHEN s.state = 0 THEN 1 ELSE s.state END,
      ready_us = CASE WHEN s.state = 0 THEN p_now ELSE s.ready_us END,
      queue = s.queue + 1;
END $$;

-- Sender, claim: station, claim number, attempts, the message, its parts.
CREATE OR REPLACE FUNCTION smsc_claim(p_shard bigint, p_shards bigint, p_max bigint, p_now bigint, p_lease_us bigint)
RETURNS SETOF record LANGUAGE plpgsql AS $$
DECLARE
  v_left bigint := p_max;
  v_candidate record;
  v_station ms_state%ROWTYPE;
  v_head record;
BEGIN
  FOR v_step IN 0..p_shards - 1 LOOP
    FOR v_candidate IN
      SELECT dst_key FROM ms_state
      WHERE shard = (p_shard + v_step) % p_shards AND state = 1 AND ready_us <= p_now
      ORDER BY shard, state, ready_us, dst_key LIMIT v_left + 6
    LOOP
      -- Who has the lock is claiming this station or giving it another message: there are others.
      CONTINUE WHEN NOT pg_try_advisory_xact_lock(smsc_lock(v_candidate.dst_key));
      SELECT * INTO v_station FROM ms_state WHERE dst_key = v_candidate.dst_key AND state = 1;
      CONTINUE WHEN NOT FOUND;
      SELECT msg_id, expire_us INTO STRICT v_head FROM to_delivery WHERE dst_key = v_candidate.dst_key
        ORDER BY dst_key, rank, msg_id LIMIT 1;
      IF v_head.expire_us <= p_now THEN
        UPDATE ms_state SET ready_us = p_now WHERE dst_key = v_candidate.dst_key AND ready_us < p_now;
        CONTINUE;
      END IF;
      UPDATE ms_state SET state = 2, epoch = epoch + 1, current_msg = v_head.msg_id, ready_us = p_now + p_lease_us,
        alerted = 0 WHERE dst_key = v_candidate.dst_key;
      RETURN QUERY SELECT v_station.dst_key, v_station.epoch + 1, v_station.attempts,
        ARRAY(SELECT set_byte(set_byte(set_byte('\x000000'::bytea, 0, e.alphabet), 1, e.has_header),
                2, e.user_data_length) || e.octets
              FROM encoded_msg e WHERE e.msg_id = m.msg_id ORDER BY e.part),
        m.* FROM message m WHERE m.msg_id = v_head.msg_id;
      v_left := v_left - 1;
      IF v_left = 0 THEN RETURN; END IF;
    END LOOP;
  END LOOP;
END $$;

-- Sender, complete: 0 and the receipt's number (or 0) for a final state, 1 and the time of the next
-- attempt, 2 for fenced.
CREATE OR REPLACE FUNCTION smsc_complete(
  p_station bigint, p_epoch bigint, p_msg bigint, p_final bigint, p_state bigint, p_error bigint, p_absent bigint,
  p_retry_us bigint, p_now bigint, p_receipt bigint, r_key bigint, r_shard bigint, r_account bigint, r_src text,
  r_src_ton bigint, r_src_npi bigint, r_dst text, r_dst_ton bigint, r_dst_npi bigint, r_esm_class bigint,
  r_expire_us bigint, r_body bytea, OUT kind bigint, OUT value bigint) LANGUAGE plpgsql AS $$
DECLARE
  v_station ms_state%ROWTYPE;
  v_priority smallint;
  v_parts smallint;
  v_expire_us bigint;
BEGIN
  PERFORM pg_advisory_xact_lock(smsc_lock(p_station));
  SELECT * INTO v_station FROM ms_state
    WHERE dst_key = p_station AND state = 2 AND epoch = p_epoch AND current_msg = p_msg;
  IF NOT FOUND THEN kind := 2; value := 0; RETURN; END IF;
  IF p_final = 1 THEN
    UPDATE message SET state = p_state, attempts = attempts + 1, last_error = p_error, done_us = p_now WHERE msg_id = p_msg RETURNING priority, parts INTO STRICT v_priority, v_parts;
    DELETE FROM to_delivery WHERE dst_key = p_station AND rank = 3 - least(v_priority, 3) AND msg_id = p_msg;
    IF NOT FOUND THEN RAISE EXCEPTION 'message % is in no queue', p_msg; END IF;
    IF v_parts > 0 THEN
      DELETE FROM encoded_msg WHERE msg_id = p_msg AND part BETWEEN 1 AND v_parts;
    END IF;
    UPDATE ms_state SET state = CASE WHEN queue > 1 THEN 1 ELSE 0 END, ready_us = p_now, current_msg = 0,
      queue = queue - 1, attempts = 0, last_error = p_error WHERE dst_key = p_station;
    kind := 0; value := 0;
    IF p_receipt = 1 THEN
      PERFORM pg_advisory_xact_lock(smsc_lock(r_key));
      value := nextval('msg_id_seq');
      INSERT INTO message VALUES (value, 1, r_account, r_src, r_src_ton, r_src_npi, r_key, r_dst, r_dst_ton,
        r_dst_npi, '', r_esm_class, 0, 0, 0, 0, p_now, 0, r_expire_us, 0, 0, 0, p_msg, 0, '', r_body);
      PERFORM smsc_enqueue(r_key, r_shard, 3, value, r_expire_us, p_now);
    END IF;
  ELSE
    UPDATE message SET attempts = attempts + 1, last_error = p_error WHERE msg_id = p_msg
      RETURNING expire_us INTO STRICT v_expire_us;
    kind := 1;
    IF v_station.alerted = 1 THEN
      value := p_now;
    ELSE
      value := greatest(least(p_retry_us, v_expire_us), p_now);
      INSERT INTO retry_timer VALUES (value, p_station, p_epoch)
        ON CONFLICT (due_us, dst_key) DO UPDATE SET epoch = excluded.epoch;
    END IF;
    UPDATE ms_state SET ready_us = value, current_msg = 0, attempts = attempts + 1, last_error = p_error,
      alerted = 0, state = CASE WHEN alerted = 1 THEN 1 WHEN p_absent = 1 THEN 4 ELSE 3 END
      WHERE dst_key = p_station;
  END IF;
END $$;
