-- The three transactions that every message goes through, each as one function for many messages:
-- a statement for each table instead of one for each row. What they do is what as many calls of
-- the functions in procedures.sql do, one after the other. The caller has the locks (smsc_begin),
-- and gives no batch in which one message's outcome depends on another statement's: a station is
-- not completed in the batch whose receipts are queued for it.

-- Receiver: the number of each message, or why it has none, as of smsc_receive. p_stations are the
-- stations of all, once each, and p_of_station the place of each message's among them; so are
-- p_accounts, none where accounts are not asked. A part is alphabet, header flag, TP-UDL, octets;
-- p_part_of is the place of its message.
CREATE OR REPLACE FUNCTION smsc_receive_batch(
  p_queue_max bigint, p_stations bigint[], p_of_station bigint[], p_accounts bigint[], p_of_account bigint[],
  p_state bigint[], p_account bigint[], p_src text[], p_src_ton bigint[], p_src_npi bigint[], p_dst_key bigint[],
  p_shard bigint[], p_dst text[], p_dst_ton bigint[], p_dst_npi bigint[], p_service_type text[],
  p_esm_class bigint[], p_protocol_id bigint[], p_priority bigint[], p_registered_delivery bigint[],
  p_data_coding bigint[], p_submit_us bigint[], p_schedule_us bigint[], p_expire_us bigint[], p_tlvs bytea[],
  p_body bytea[], p_rank bigint[], p_parts bigint[], p_part_of bigint[], p_part_number bigint[], p_part bytea[])
RETURNS SETOF bigint LANGUAGE plpgsql AS $$
DECLARE
  v_count integer := cardinality(p_state);
  v_queue bigint[];
  v_ids bigint[];
BEGIN
  SELECT array_agg(coalesce(s.queue, 0) ORDER BY t.place) INTO v_queue
    FROM unnest(p_stations) WITH ORDINALITY AS t(dst_key, place) LEFT JOIN ms_state s ON s.dst_key = t.dst_key;
  IF cardinality(p_accounts) = 0 AND (SELECT max(queue) FROM unnest(v_queue) AS q(queue)) + v_count <= p_queue_max THEN
    v_ids := ARRAY(SELECT nextval('msg_id_seq') FROM generate_series(1, v_count));
  ELSE
    v_ids := smsc_admit_batch(p_queue_max, v_queue, p_of_station, p_accounts, p_of_account, p_state, p_submit_us);
  END IF;
  INSERT INTO message
    SELECT v_ids[m.place], m.state, m.account, m.src, m.src_ton, m.src_npi, m.dst_key, m.dst, m.dst_ton, m.dst_npi,
      m.service_type, m.esm_class, m.protocol_id, m.priority, m.registered_delivery, m.data_coding, m.submit_us,
      m.schedule_us, m.expire_us, 0, 0, 0, 0, m.parts, m.tlvs, m.body
    FROM unnest(p_state, p_account, p_src, p_src_ton, p_src_npi, p_dst_key, p_dst, p_dst_ton, p_dst_npi,
        p_service_type, p_esm_class, p_protocol_id, p_priority, p_registered_delivery, p_data_coding, p_submit_us,
        p_schedule_us, p_expire_us, p_parts, p_tlvs, p_body)
      WITH ORDINALITY AS m(state, account, src, src_ton, src_npi, dst_key, dst, dst_ton, dst_npi, service_type,
        esm_class, protocol_id, priority, registered_delivery, data_coding, submit_us, schedule_us, expire_us, parts,
        tlvs, body, place)
    WHERE v_ids[m.place] > 0;
  INSERT INTO encoded_msg
    SELECT v_ids[e.of], e.number, get_byte(e.packed, 0), get_byte(e.packed, 1), get_byte(e.packed, 2), substr(e.packed, 4)
    FROM unnest(p_part_of, p_part_number, p_part) AS e(of, number, packed)
    WHERE v_ids[e.of] > 0;
  IF 0 = ANY (p_state) THEN
    INSERT INTO scheduled_msg
      SELECT m.schedule_us, v_ids[m.place], m.dst_key
      FROM unnest(p_state, p_schedule_us, p_dst_key) WITH ORDINALITY AS m(state, schedule_us, dst_key, place)
      WHERE m.state = 0 AND v_ids[m.place] > 0;
  END IF;
  PERFORM smsc_enqueue_batch(v_ids, p_state, p_dst_key, p_shard, p_rank, p_expire_us, p_submit_us);
  RETURN QUERY SELECT i.id FROM unnest(v_ids) WITH ORDINALITY AS i(id, place) ORDER BY i.place;
END $$;

-- Gives numbers to messages one after the other, as far as the queue of each one's station and its
-- account let it: what smsc_receive and smsc_charge ask before they write.
CREATE OR REPLACE FUNCTION smsc_admit_batch(
  p_queue_max bigint, p_queue bigint[], p_of_station bigint[], p_accounts bigint[], p_of_account bigint[],
  p_state bigint[], p_submit_us bigint[]) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
  v_ids bigint[] := array_fill(0::bigint, ARRAY[cardinality(p_state)]);
  v_quota bigint[];
  v_rate_max bigint[];
  v_submitted bigint[];
  v_second_us bigint[];
  v_in_second bigint[];
  v_at bigint;
  v_begin_us bigint;
BEGIN
  SELECT array_agg(a.quota ORDER BY t.place), array_agg(a.rate_max ORDER BY t.place),
      array_agg(a.submitted ORDER BY t.place), array_agg(a.second_us ORDER BY t.place),
      array_agg(a.in_second ORDER BY t.place)
    INTO v_quota, v_rate_max, v_submitted, v_second_us, v_in_second
    FROM unnest(p_accounts) WITH ORDINALITY AS t(account, place) LEFT JOIN account a ON a.account = t.account;
  FOR i IN 1..cardinality(p_state) LOOP
    CONTINUE WHEN p_queue[p_of_station[i]] >= p_queue_max;
    IF cardinality(p_accounts) > 0 THEN
      v_at := p_of_account[i];
      IF v_quota[v_at] IS NULL THEN
        v_ids[i] := -1;
        CONTINUE;
      END IF;
      IF v_quota[v_at] > 0 AND v_submitted[v_at] >= v_quota[v_at] THEN
        v_ids[i] := -2;
        CONTINUE;
      END IF;
      v_begin_us := p_submit_us[i] - ((p_submit_us[i] % 1000000) + 1000000) % 1000000;
      IF v_rate_max[v_at] > 0 AND v_begin_us <= v_second_us[v_at] AND v_in_second[v_at] >= v_rate_max[v_at] THEN
        v_ids[i] := -3;
        CONTINUE;
      END IF;
      IF v_begin_us > v_second_us[v_at] THEN
        v_second_us[v_at] := v_begin_us;
        v_in_second[v_at] := 0;
      END IF;
      v_submitted[v_at] := v_submitted[v_at] + 1;
      v_in_second[v_at] := v_in_second[v_at] + 1;
    END IF;
    v_ids[i] := nextval('msg_id_seq');
    IF p_state[i] <> 0 THEN
      p_queue[p_of_station[i]] := p_queue[p_of_station[i]] + 1;
    END IF;
  END LOOP;
  IF cardinality(p_accounts) > 0 THEN
    UPDATE account a SET submitted = t.submitted, second_us = t.second_us, in_second = t.in_second
      FROM unnest(p_accounts, v_submitted, v_second_us, v_in_second) AS t(account, submitted, second_us, in_second)
      WHERE a.account = t.account AND (a.submitted, a.second_us, a.in_second) <> (t.submitted, t.second_us, t.in_second);
  END IF;
  RETURN v_ids;
END $$;

-- Queues those messages that have a number and are not scheduled.
CREATE OR REPLACE FUNCTION smsc_enqueue_batch(
  p_ids bigint[], p_state bigint[], p_dst_key bigint[], p_shard bigint[], p_rank bigint[], p_expire_us bigint[],
  p_now bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO to_delivery
    SELECT m.dst_key, m.rank, m.id, m.expire_us
    FROM unnest(p_ids, p_state, p_dst_key, p_rank, p_expire_us) AS m(id, state, dst_key, rank, expire_us)
    WHERE m.id > 0 AND m.state <> 0;
  -- The first message of a station that was idle says where it waits, and since when.
  INSERT INTO ms_state AS s
    SELECT q.dst_key, q.shard[1], 1, q.now[1], 0, 0, q.messages, 0, 0, 0
    FROM (
      SELECT m.dst_key, array_agg(m.shard ORDER BY m.place) AS shard, array_agg(m.now ORDER BY m.place) AS now,
        count(*) AS messages
      FROM unnest(p_ids, p_state, p_dst_key, p_shard, p_now) WITH ORDINALITY AS m(id, state, dst_key, shard, now, place)
      WHERE m.id > 0 AND m.state <> 0 GROUP BY m.dst_key) q
    ON CONFLICT (dst_key) DO UPDATE SET
      shard = CASE WHEN s.state = 0 THEN excluded.shard ELSE s.shard END,
      state = CASE WHEN s.state = 0 THEN 1 ELSE s.state END,
      ready_us = CASE WHEN s.state = 0 THEN excluded.ready_us ELSE s.ready_us END,
      queue = s.queue + excluded.queue;
END $$;

-- Sender, claim: station, claim number, attempts, the message, its parts, as of smsc_claim.
CREATE OR REPLACE FUNCTION smsc_claim_batch(
  p_shard bigint, p_shards bigint, p_max bigint, p_now bigint, p_lease_us bigint)
RETURNS SETOF record LANGUAGE plpgsql AS $$
DECLARE
  v_left bigint := p_max;
  v_asked bigint;
  v_candidates bigint[];
  v_locked bigint[];
  v_next bigint;
  v_claimed bigint;
BEGIN
  FOR v_step IN 0..p_shards - 1 LOOP
    v_candidates := ARRAY(
      SELECT dst_key FROM ms_state
      WHERE shard = (p_shard + v_step) % p_shards AND state = 1 AND ready_us <= p_now
      ORDER BY shard, state, ready_us, dst_key LIMIT v_left + 6);
    v_next := 1;
    WHILE v_next <= cardinality(v_candidates) LOOP
      -- Who has the lock is claiming this station or giving it another message: there are others.
      -- What is read after the locks is read anew.
      v_asked := v_left;
      SELECT array_agg(l.dst_key ORDER BY l.place), coalesce(max(l.place), cardinality(v_candidates)) + 1
        INTO v_locked, v_next
        FROM (
          SELECT c.dst_key, c.place FROM unnest(v_candidates) WITH ORDINALITY AS c(dst_key, place)
          WHERE c.place >= v_next AND pg_try_advisory_xact_lock(smsc_lock(c.dst_key)) LIMIT v_asked) l;
      EXIT WHEN v_locked IS NULL;
      RETURN QUERY
        WITH head AS MATERIALIZED (
          SELECT l.dst_key, l.place, q.msg_id, q.expire_us
          FROM unnest(v_locked) WITH ORDINALITY AS l(dst_key, place)
          JOIN ms_state s ON s.dst_key = l.dst_key AND s.state = 1
          CROSS JOIN LATERAL (
            SELECT d.msg_id, d.expire_us FROM to_delivery d WHERE d.dst_key = l.dst_key
            ORDER BY d.dst_key, d.rank, d.msg_id LIMIT 1) q),
        taken AS (
          UPDATE ms_state s SET state = 2, epoch = s.epoch + 1, current_msg = h.msg_id, ready_us = p_now + p_lease_us,
            alerted = 0
          FROM head h WHERE s.dst_key = h.dst_key AND h.expire_us > p_now
          RETURNING s.dst_key, s.epoch, s.attempts, h.msg_id, h.place),
        late AS (
          UPDATE ms_state s SET ready_us = p_now
          FROM head h WHERE s.dst_key = h.dst_key AND h.expire_us <= p_now AND s.ready_us < p_now)
        SELECT t.dst_key, t.epoch, t.attempts,
          ARRAY(SELECT set_byte(set_byte(set_byte('\x000000'::bytea, 0, e.alphabet), 1, e.has_header),
                  2, e.user_data_length) || e.octets
                FROM encoded_msg e WHERE e.msg_id = m.msg_id ORDER BY e.part),
          m.* FROM taken t JOIN message m ON m.msg_id = t.msg_id ORDER BY t.place;
      GET DIAGNOSTICS v_claimed = ROW_COUNT;
      v_left := v_left - v_claimed;
      IF v_left = 0 THEN RETURN; END IF;
    END LOOP;
  END LOOP;
END $$;

-- Sender, complete: as of smsc_complete, for each in the order of the completions. r_of is the place
-- of the completion that a receipt belongs to, which is a final one.
CREATE OR REPLACE FUNCTION smsc_complete_batch(
  p_station bigint[], p_epoch bigint[], p_msg bigint[], p_final bigint[], p_state bigint[], p_error bigint[],
  p_absent bigint[], p_retry_us bigint[], p_now bigint[], r_of bigint[], r_key bigint[], r_shard bigint[],
  r_account bigint[], r_src text[], r_src_ton bigint[], r_src_npi bigint[], r_dst text[], r_dst_ton bigint[],
  r_dst_npi bigint[], r_esm_class bigint[], r_expire_us bigint[], r_body bytea[])
RETURNS TABLE(kind bigint, value bigint) LANGUAGE plpgsql AS $$
DECLARE
  v_count integer := cardinality(p_station);
  v_holds boolean[];
  v_values bigint[] := array_fill(0::bigint, ARRAY[v_count]);
  v_receipts bigint[];
  v_final bigint;
  v_ended bigint;
  v_unqueued bigint;
  v_tried record;
BEGIN
  -- Of those that name the same flight, the first ends it.
  SELECT array_agg(t.holds ORDER BY t.place), count(*) FILTER (WHERE t.holds AND t.final = 1) INTO v_holds, v_final
    FROM (
      SELECT c.place, c.final, s.dst_key IS NOT NULL
        AND row_number() OVER (PARTITION BY c.station, s.dst_key ORDER BY c.place) = 1 AS holds
      FROM unnest(p_station, p_epoch, p_msg, p_final) WITH ORDINALITY AS c(station, epoch, msg, final, place)
      LEFT JOIN ms_state s ON s.dst_key = c.station AND s.state = 2 AND s.epoch = c.epoch AND s.current_msg = c.msg) t;
  IF v_final > 0 THEN
    WITH ended AS (
      UPDATE message m SET state = c.state, attempts = m.attempts + 1, last_error = c.error, done_us = c.now
      FROM unnest(p_station, p_msg, p_final, p_state, p_error, p_now)
        WITH ORDINALITY AS c(station, msg, final, state, error, now, place)
      WHERE v_holds[c.place] AND c.final = 1 AND m.msg_id = c.msg
      RETURNING m.msg_id, c.station, 3 - least(m.priority, 3) AS rank, m.parts),
    unqueued AS (
      DELETE FROM to_delivery d USING ended e
      WHERE d.dst_key = e.station AND d.rank = e.rank AND d.msg_id = e.msg_id RETURNING 1),
    unparted AS (
      DELETE FROM encoded_msg p USING ended e WHERE e.parts > 0 AND p.msg_id = e.msg_id)
    SELECT (SELECT count(*) FROM ended), (SELECT count(*) FROM unqueued) INTO v_ended, v_unqueued;
    IF v_ended <> v_final OR v_unqueued <> v_final THEN
      RAISE EXCEPTION 'of % messages in flight % are there and % in a queue', v_final, v_ended, v_unqueued;
    END IF;
    UPDATE ms_state s SET state = CASE WHEN s.queue > 1 THEN 1 ELSE 0 END, ready_us = c.now, current_msg = 0,
        queue = s.queue - 1, attempts = 0, last_error = c.error
      FROM unnest(p_station, p_final, p_error, p_now) WITH ORDINALITY AS c(station, final, error, now, place)
      WHERE v_holds[c.place] AND c.final = 1 AND s.dst_key = c.station;
  END IF;
  IF 0 = ANY (p_final) THEN
    FOR v_tried IN
      WITH tried AS (
        UPDATE message m SET attempts = m.attempts + 1, last_error = c.error
        FROM unnest(p_station, p_epoch, p_msg, p_final, p_error, p_absent, p_retry_us, p_now)
          WITH ORDINALITY AS c(station, epoch, msg, final, error, absent, retry_us, now, place)
        WHERE v_holds[c.place] AND c.final = 0 AND m.msg_id = c.msg
        RETURNING c.place, c.station, c.epoch, c.error, c.absent, c.retry_us, c.now, m.expire_us),
      due AS MATERIALIZED (
        SELECT t.*, s.alerted,
          CASE WHEN s.alerted = 1 THEN t.now ELSE greatest(least(t.retry_us, t.expire_us), t.now) END AS due_us
        FROM tried t JOIN ms_state s ON s.dst_key = t.station),
      timed AS (
        INSERT INTO retry_timer SELECT d.due_us, d.station, d.epoch FROM due d WHERE d.alerted <> 1
        ON CONFLICT (due_us, dst_key) DO UPDATE SET epoch = excluded.epoch),
      waiting AS (
        UPDATE ms_state s SET ready_us = d.due_us, current_msg = 0, attempts = s.attempts + 1, last_error = d.error,
          alerted = 0, state = CASE WHEN d.alerted = 1 THEN 1 WHEN d.absent = 1 THEN 4 ELSE 3 END
        FROM due d WHERE s.dst_key = d.station)
      SELECT d.place, d.due_us FROM due d
    LOOP
      v_values[v_tried.place] := v_tried.due_us;
    END LOOP;
  END IF;
  IF cardinality(r_of) > 0 THEN
    v_receipts := ARRAY(
      SELECT CASE WHEN v_holds[r.of] THEN nextval('msg_id_seq') ELSE 0 END
      FROM unnest(r_of) WITH ORDINALITY AS r(of, place) ORDER BY r.place);
    INSERT INTO message
      SELECT v_receipts[r.place], 1, r.account, r.src, r.src_ton, r.src_npi, r.key, r.dst, r.dst_ton, r.dst_npi, '',
        r.esm_class, 0, 0, 0, 0, p_now[r.of], 0, r.expire_us, 0, 0, 0, p_msg[r.of], 0, '', r.body
      FROM unnest(r_of, r_key, r_account, r_src, r_src_ton, r_src_npi, r_dst, r_dst_ton, r_dst_npi, r_esm_class,
          r_expire_us, r_body)
        WITH ORDINALITY AS r(of, key, account, src, src_ton, src_npi, dst, dst_ton, dst_npi, esm_class, expire_us,
          body, place)
      WHERE v_receipts[r.place] > 0;
    PERFORM smsc_enqueue_batch(v_receipts, array_fill(1::bigint, ARRAY[cardinality(r_of)]), r_key, r_shard,
      array_fill(3::bigint, ARRAY[cardinality(r_of)]), r_expire_us,
      ARRAY(SELECT p_now[r.of] FROM unnest(r_of) WITH ORDINALITY AS r(of, place) ORDER BY r.place));
    FOR i IN 1..cardinality(r_of) LOOP
      v_values[r_of[i]] := v_receipts[i];
    END LOOP;
  END IF;
  RETURN QUERY
    SELECT CASE WHEN NOT v_holds[c.place] THEN 2 WHEN c.final = 1 THEN 0 ELSE 1 END::bigint, v_values[c.place]
    FROM unnest(p_final) WITH ORDINALITY AS c(final, place) ORDER BY c.place;
END $$;
