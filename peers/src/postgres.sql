-- The PostgreSQL peer: three tables and one function per transaction, so that a transaction is one
-- call.
CREATE TABLE message(
  msg_id bigint PRIMARY KEY, account int NOT NULL, source bytea NOT NULL, dst_key bigint NOT NULL,
  submit_us bigint NOT NULL, expire_us bigint NOT NULL, rank smallint NOT NULL, coding smallint NOT NULL,
  body bytea NOT NULL);
CREATE TABLE to_delivery(
  dst_key bigint NOT NULL, rank smallint NOT NULL, msg_id bigint NOT NULL, expire_us bigint NOT NULL,
  PRIMARY KEY (dst_key, rank, msg_id));
CREATE TABLE ms_state(
  dst_key bigint PRIMARY KEY, state smallint NOT NULL, ready_us bigint NOT NULL, last_msg bigint NOT NULL);

CREATE FUNCTION receive(
  m_id bigint, m_account int, m_source bytea, m_dst bigint, m_submit bigint, m_expire bigint, m_rank smallint,
  m_coding smallint, m_body bytea) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO message VALUES (m_id, m_account, m_source, m_dst, m_submit, m_expire, m_rank, m_coding, m_body);
  INSERT INTO to_delivery VALUES (m_dst, m_rank, m_id, m_expire);
END $$;

CREATE FUNCTION deliver(m_dst bigint, m_rank smallint, m_id bigint, s_state smallint, s_ready bigint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM to_delivery WHERE dst_key = m_dst AND rank = m_rank AND msg_id = m_id;
  IF NOT FOUND THEN RAISE EXCEPTION 'the queue row is gone'; END IF;
  DELETE FROM message WHERE msg_id = m_id;
  IF NOT FOUND THEN RAISE EXCEPTION 'the message is gone'; END IF;
  INSERT INTO ms_state VALUES (m_dst, s_state, s_ready, m_id)
    ON CONFLICT (dst_key) DO UPDATE SET
      state = excluded.state, ready_us = excluded.ready_us, last_msg = excluded.last_msg;
END $$;
